"""Grafana dashboards, made from the names and numbers of the exporter."""
