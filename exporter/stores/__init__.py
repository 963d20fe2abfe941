"""The stores: the questions that the watch asks, and the adapters that answer them."""
