"""A small live inference stack: gateway, admission queue, workers with leases, ledger.

Every part moves by ``step(now, connection)`` on a clock that is handed in, and writes what a real
stack would write into its tables. ``Stack`` puts the parts together; nothing here reads signals.
"""
