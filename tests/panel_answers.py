"""What a dashboard's panels are answered by a real Prometheus, asked as Grafana would ask."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from servers import fetch

EVERYTHING: Final = {"job": ".+", "instance": ".+", "pool": ".+", "price": "2.5"}
"""The dashboard's variables with "All" chosen, and a price."""

_SCRAPES_OF_A_RATE: Final = 4
"""Grafana's rate interval is at least that many scrapes."""


class Window(NamedTuple):
    """The time that a dashboard shows, in epoch seconds, and how far its points are apart."""

    start: float
    end: float
    step: float


class Series(NamedTuple):
    """One line: what it is called, and its points in epoch seconds; only numbers."""

    labels: Mapping[str, str]
    legend: str
    points: tuple[tuple[float, float], ...]


def panels_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard that show data: no rows, no words."""
    return [panel for panel in document["panels"] if panel["type"] not in {"row", "text"}]


def filled(expr: str, window: Window, values: Mapping[str, str] = EVERYTHING) -> str:
    """Return a query with every variable's value in its place."""
    rate = max(_SCRAPES_OF_A_RATE * window.step, 2 * window.step)
    own = {
        "__interval": f"{window.step:g}s",
        "__rate_interval": f"{rate:g}s",
        "__range": f"{window.end - window.start:.0f}s",
    }
    return re.sub(r"\$(\w+)", lambda found: {**values, **own}[found[1]], expr)


def answers(prometheus: str, target: Mapping[str, Any], window: Window) -> list[Series]:
    """Return what one target of a panel is answered; a query that is refused is an error."""
    query = filled(target["expr"], window)
    if target.get("instant"):
        path, times = "query", {"time": window.end}
    else:
        path, times = "query_range", {"start": window.start, "end": window.end, "step": window.step}
    status, body = fetch(f"{prometheus}/api/v1/{path}?{urlencode({'query': query, **times})}")
    document = json.loads(body)
    assert status == 200, f"{query}\n{document}"
    found = [
        Series(
            one["metric"],
            _legend(target["legendFormat"], one["metric"]),
            tuple(
                (float(at), float(value))
                for at, value in one.get("values", [one.get("value")])
                if not math.isnan(float(value))
            ),
        )
        for one in document["data"]["result"]
    ]
    return [series for series in found if series.points]


def _legend(wanted: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), wanted)


def metric_names(prometheus: str) -> set[str]:
    """Return every metric name that the server has seen."""
    document = json.loads(fetch(f"{prometheus}/api/v1/label/__name__/values")[1])
    return set(document["data"])
