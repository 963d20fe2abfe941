"""Every query of every panel, asked of a real Prometheus that scraped a real incident."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from artifact_configs import small_config
from drawn_dashboards import digest, digest_of_picture, write_picture
from incident import Incident, recorded_incident
from panel_answers import Series, Window, answers, filled, metric_names, panels_of
from promql_facts import selectors
from servers import fetch, wait_until

from orphanwatch.dashboards.build import build
from orphanwatch.dashboards.links import Dashboard, Panel
from orphanwatch.exporter import names

pytestmark = pytest.mark.servers

LENGTH = 38.0
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
REDRAW = "draw them again: python docs/draw_dashboards.py"
ALL_PANELS = [
    pytest.param(file, panel["id"], id=f"{file.removesuffix('.json')}: {panel['title']}")
    for file, text in build(small_config()).items()
    for panel in panels_of(json.loads(text))
]


class Recorded(NamedTuple):
    """The incident, the dashboards of its config, and the time to show."""

    incident: Incident
    dashboards: dict[str, dict[str, Any]]
    window: Window
    names: set[str]

    def panel(self, file: str, number: int) -> dict[str, Any]:
        """Return a panel by its id."""
        return next(found for found in panels_of(self.dashboards[file]) if found["id"] == number)

    def shown(self, panel: Panel, ref: str = "A") -> list[Series]:
        """Return what one query of a panel is answered."""
        found = self.panel(f"{panel.dashboard}.json", panel.id)
        target = next(target for target in found["targets"] if target["refId"] == ref)
        return answers(self.incident.prometheus, target, self.window)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Record one incident for all tests of this file."""
    with recorded_incident(tmp_path_factory.mktemp("incident"), LENGTH) as incident:
        files = {file: json.loads(text) for file, text in build(incident.config).items()}
        window = Window(incident.start, time.time(), 1.0)
        yield Recorded(incident, files, window, metric_names(incident.prometheus))


@pytest.mark.parametrize(("file", "number"), ALL_PANELS)
def test_every_query_is_answered(recorded: Recorded, file: str, number: int) -> None:
    """No query of a panel is empty, and none names a metric that is not there."""
    for target in recorded.panel(file, number)["targets"]:
        asked = {found.name for found in selectors(filled(target["expr"], recorded.window))}
        assert asked <= recorded.names
        assert answers(recorded.incident.prometheus, target, recorded.window), target["expr"]


def test_every_family_is_shown(recorded: Recorded) -> None:
    """What the exporter shows stands in some panel, so that nothing is hidden from the on-call."""
    asked = {
        (found.name or "").removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        for document in recorded.dashboards.values()
        for panel in panels_of(document)
        for target in panel["targets"]
        for found in selectors(filled(target["expr"], recorded.window))
    }
    assert {str(family) for family in names.FAMILIES} <= asked


@pytest.mark.parametrize("dashboard", Dashboard)
def test_variables_have_values(recorded: Recorded, dashboard: Dashboard) -> None:
    """Each variable of a label finds a value to choose."""
    for variable in recorded.dashboards[f"{dashboard}.json"]["templating"]["list"]:
        if variable["type"] != "query":
            continue
        inner = variable["query"].removeprefix("label_values(").rpartition(",")[0]
        matched = urlencode({"match[]": filled(inner, recorded.window)})
        url = f"{recorded.incident.prometheus}/api/v1/label/{variable['name']}/values?{matched}"
        assert json.loads(fetch(url)[1])["data"]


@pytest.mark.parametrize("dashboard", Dashboard)
def test_alerts_are_marked(recorded: Recorded, dashboard: Dashboard) -> None:
    """The firing alerts are found by the query of the marks."""
    (marks,) = recorded.dashboards[f"{dashboard}.json"]["annotations"]["list"]
    target = {"expr": marks["expr"], "legendFormat": "{{alertname}}"}

    def firing() -> set[str]:
        window = recorded.window._replace(end=time.time())
        found = answers(recorded.incident.prometheus, target, window)
        return {series.legend for series in found}

    wait_until("the first page", lambda: "OrphanTokensAccruing" in firing(), 60)


@pytest.mark.parametrize("dashboard", Dashboard)
def test_every_panel_can_be_drawn(recorded: Recorded, dashboard: Dashboard, tmp_path: Path) -> None:
    """The renderer of the documentation's pictures draws every panel that is there."""
    document = recorded.dashboards[f"{dashboard}.json"]
    picture = tmp_path / "picture.png"
    write_picture(document, recorded.incident, recorded.window, picture)
    assert digest_of_picture(picture) == digest(document)


@pytest.mark.parametrize("dashboard", Dashboard)
def test_pictures_are_of_these_dashboards(recorded: Recorded, dashboard: Dashboard) -> None:
    """The committed pictures show the panels as they are now, each in its place."""
    drawn = digest_of_picture(PICTURES / f"{dashboard}.png")
    assert drawn == digest(recorded.dashboards[f"{dashboard}.json"]), REDRAW


def test_verdict(recorded: Recorded) -> None:
    """The verdict begins at scale and gets worse with the incident; from shed it never turns."""
    (verdict,) = recorded.shown(Panel.VERDICT)
    values = [value for _, value in verdict.points]
    assert values[0] == 0
    assert values[-1] == 3
    assert set(values) <= {0, 1, 3}
    assert values == sorted(values)


def test_waste(recorded: Recorded) -> None:
    """Tokens, worker time and money agree with each other, at the price that was typed."""
    tokens = {
        series.labels["pool"]: series.points[0][1] for series in recorded.shown(Panel.WASTED_TOKENS)
    }
    (money,) = recorded.shown(Panel.WASTED_MONEY)
    assert tokens["overflow"] > 500
    assert tokens["paid"] == 0
    assert money.points[0][1] == pytest.approx(sum(tokens.values()) * 2.5 / 1_000_000)
    held = {
        series.labels["pool"]: series.points[0][1]
        for series in recorded.shown(Panel.WASTED_WORKER_SECONDS)
    }
    assert held["overflow"] > 30
    assert held["paid"] == 0


@pytest.mark.parametrize("price", ["", "0", "0.0", "-3"], ids=["empty", "zero", "0.0", "negative"])
def test_without_a_price_there_is_no_money(recorded: Recorded, price: str) -> None:
    """Without a price the panel is empty rather than zero: it says to type one."""
    panel = recorded.panel(f"{Dashboard.OVERVIEW}.json", Panel.WASTED_MONEY.id)
    (target,) = panel["targets"]
    unpriced = {**target, "expr": target["expr"].replace("$price", price)}
    assert answers(recorded.incident.prometheus, unpriced, recorded.window) == []
    assert panel["fieldConfig"]["defaults"]["noValue"] == "type a price above"


def test_exemplars(recorded: Recorded) -> None:
    """The queries that ask for exemplars are of counters, and find the orphans' task ids."""
    panel = recorded.panel(f"{Dashboard.OVERVIEW}.json", Panel.TOKENS_BY_CAUSE.id)
    (target,) = panel["targets"]
    assert target["exemplar"] is True
    query = {
        "query": filled(target["expr"], recorded.window),
        "start": recorded.window.start,
        "end": recorded.window.end,
    }
    url = f"{recorded.incident.prometheus}/api/v1/query_exemplars?{urlencode(query)}"
    found = json.loads(fetch(url)[1])["data"]
    tasks = {one["labels"]["task_id"] for series in found for one in series["exemplars"]}
    assert tasks & {"half-heard", "late"} or any(task.startswith("overflow-") for task in tasks)
