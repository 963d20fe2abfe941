"""The signals: pure functions from readings to numbers (contract, sections 4 and 6)."""
