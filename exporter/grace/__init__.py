"""Measures the cancel grace: samples, the curve of what stopped by when, and what to make of it."""
