"""Logs with a JSON object a line, followed across rotation."""
