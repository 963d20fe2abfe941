"""A small inference stack that moves on a clock that is handed in: what demo and drill both run.

Gateway, admission queue, cancel channel, workers with leases, ledger. It writes what happens
through ``books.Books`` and knows nothing of the exporter that looks at it.
"""
