"""Checks of rules and panel queries on their parsed PromQL: no server, and no exclusions."""
