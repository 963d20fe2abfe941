"""Replays the rules over the history that a Prometheus server has, and counts what would page."""
