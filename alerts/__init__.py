"""The alerts: rules, their promtool tests and their routing, as functions from a config to text."""
