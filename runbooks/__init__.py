"""Runbook pages: the service page with its threshold line, and one page for each alert."""
