"""The exporter: reads the stores, evaluates the orphan signals, and serves them."""
