"""The v2 model of the dashboards, translated from the classic one."""
