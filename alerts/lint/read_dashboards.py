"""Reads the queries of a dashboard (classic model), with its variables filled in."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from orphanwatch.alerts.lint.model import Expression, Role
from orphanwatch.alerts.lint.tree import parsed
from orphanwatch.alerts.timing import LOOKBACK_SCRAPES
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, format_duration

_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*")')
_INTERVALS: Final = re.compile(r"\$(?:\{)?__(?:rate_interval|interval)\b\}?")
_RANGE: Final = re.compile(r"\$(?:\{)?__range\b\}?")
_VARIABLE: Final = re.compile(r"\$\{?\w+(?::\w+)?\}?")
_LABEL_VALUES: Final = re.compile(r"label_values\((.+),\s*\w+\)", re.DOTALL)


def dashboard_expressions(config: Config, file: str, text: str) -> Iterator[Expression]:
    """Yield every query of a dashboard: its panels', its marks', and those of its variables."""
    document = json.loads(text)
    for panel in _panels(document):
        for target in panel.get("targets", ()):
            if "expr" in target:
                place = f'panel "{panel.get("title", "")}", query {target.get("refId", "")}'
                yield _expression(config, file, place, target["expr"], Role.PANEL)
    for mark in document.get("annotations", {}).get("list", ()):
        if mark.get("expr"):
            yield _expression(config, file, f'marks "{mark["name"]}"', mark["expr"], Role.MARKS)
    for variable in document.get("templating", {}).get("list", ()):
        asked = _LABEL_VALUES.fullmatch(_variable_query(variable))
        if asked is not None:
            place = f"variable {variable['name']}"
            yield _expression(config, file, place, asked[1], Role.MARKS)


def _panels(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for panel in document.get("panels", ()):
        yield panel
        yield from _panels(panel)


def _variable_query(variable: Mapping[str, Any]) -> str:
    query = variable.get("query", "")
    return str(query.get("query", "")) if isinstance(query, dict) else str(query)


def _expression(config: Config, file: str, place: str, text: str, role: Role) -> Expression:
    return Expression(
        file=file,
        place=place,
        text=text,
        read=parsed(filled_in(config, text)),
        role=role,
        hold=Micros(0),
    )


def filled_in(config: Config, text: str) -> str:
    """Return a query as Grafana sends it: lengths as it fills them in, other variables as 1.

    A variable within quotes stays: it stands for any value.
    """
    shortest = format_duration(LOOKBACK_SCRAPES * config.scrape_interval)
    parts = _QUOTED.split(text)
    for place in range(0, len(parts), 2):
        plain = _INTERVALS.sub(shortest, parts[place])
        parts[place] = _VARIABLE.sub("1", _RANGE.sub("1h", plain))
    return "".join(parts)
