"""Stores known by metrics: PromQL, and text expositions."""
