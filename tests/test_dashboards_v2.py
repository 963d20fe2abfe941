"""The v2 model of the dashboards: it shows what the classic one shows, or is not written at all."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from artifact_configs import STORES, golden, small_config
from dashboard_lint import RULES
from dashboard_v2 import as_classic, meaningful
from panel_answers import panels_of

from orphanwatch.dashboards.build import build
from orphanwatch.dashboards.model import Model
from orphanwatch.dashboards.v2.translate import translate
from orphanwatch.exporter.errors import RenderError

Document = dict[str, Any]
CONFIGS: dict[str, dict[str, Any]] = {
    "the small config": {},
    "one service of several": {"selector": 'cluster="eu-1"'},
    "two stores only": {"stores": {name: STORES[name] for name in ("gateway", "ledger")}},
}


@cache
def _built(config: str, model: Model) -> dict[str, str]:
    return build(small_config(**CONFIGS[config]), model)


FILES = tuple(_built("the small config", Model.CLASSIC))


def read(file: str, model: Model = Model.V2, config: str = "the small config") -> Document:
    """Return a dashboard of one of the configs."""
    document: Document = json.loads(_built(config, model)[file])
    return document


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("file", FILES)
def test_same_dashboard(file: str, config: str) -> None:
    """Read back, v2 is the classic dashboard, every field of every panel that means something."""
    classic = read(file, Model.CLASSIC, config)
    assert as_classic(read(file, config=config)) == meaningful(classic)


REFRESH_INTERVALS = ["5s", "10s", "30s", "1m", "5m", "15m", "30m", "1h", "2h", "1d"]
V2_ALONE: dict[str, object] = {
    "apiVersion": "dashboard.grafana.app/v2",
    "kind": "Dashboard",
    "spec.annotations.N.kind": "AnnotationQuery",
    "spec.annotations.N.spec.query.kind": "DataQuery",
    "spec.annotations.N.spec.query.spec.refId": "Anno",
    "spec.annotations.N.spec.query.version": "v0",
    "spec.elements.panel-N.kind": "Panel",
    "spec.elements.panel-N.spec.data.kind": "QueryGroup",
    "spec.elements.panel-N.spec.data.spec.queries.N.kind": "PanelQuery",
    "spec.elements.panel-N.spec.data.spec.queries.N.spec.hidden": False,
    "spec.elements.panel-N.spec.data.spec.queries.N.spec.query.kind": "DataQuery",
    "spec.elements.panel-N.spec.data.spec.queries.N.spec.query.version": "v0",
    "spec.elements.panel-N.spec.data.spec.queryOptions": {},
    "spec.elements.panel-N.spec.data.spec.transformations": [],
    "spec.elements.panel-N.spec.vizConfig.kind": "VizConfig",
    "spec.elements.panel-N.spec.vizConfig.version": "",
    "spec.layout.spec.rows.N.kind": "RowsLayoutRow",
    "spec.layout.spec.rows.N.spec.layout.kind": "GridLayout",
    "spec.layout.spec.rows.N.spec.layout.spec.items.N.kind": "GridLayoutItem",
    "spec.layout.spec.rows.N.spec.layout.spec.items.N.spec.element.kind": "ElementReference",
    "spec.preload": False,
    "spec.timeSettings.autoRefreshIntervals": REFRESH_INTERVALS,
    "spec.timeSettings.hideTimepicker": False,
    "spec.variables.N.spec.hide": "dontHide",
    "spec.variables.N.spec.options": [],
    "spec.variables.N.spec.query.kind": "DataQuery",
    "spec.variables.N.spec.query.spec.refId": "PrometheusVariableQueryEditor-VariableQuery",
    "spec.variables.N.spec.query.version": "v0",
    "spec.variables.N.spec.refresh": "never",
    "spec.variables.N.spec.regex": "",
    "spec.variables.N.spec.regexApplyTo": "value",
}
"""What v2 has to say besides: what kind of thing each is, and what Grafana takes for granted."""


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each value that holds no other, after its path, with what holds it and its key."""
    keyed = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(keyed):
        step = "N" if isinstance(key, int) else re.sub(r"^panel-\d+$", "panel-N", key)
        if isinstance(inner, dict | list) and inner and f"{path}{step}" not in V2_ALONE:
            yield from _leaves(inner, f"{path}{step}.")
        else:
            yield f"{path}{step}", value, key


def test_nothing_else_is_in_it() -> None:
    """Each value is the classic dashboard's, since another would be noticed, or always the same."""
    resource = read("orphanwatch-overview.json")
    read_back = as_classic(read("orphanwatch-overview.json"))
    alone: dict[str, object] = {}
    for path, holder, key in _leaves(resource):
        value, holder[key] = holder[key], "another"
        if _reads_as(resource, read_back):
            assert alone.setdefault(path, value) == value
        holder[key] = value
    assert alone == V2_ALONE


def _reads_as(resource: Document, read_back: Document) -> bool:
    try:
        return as_classic(resource) == read_back
    except (AssertionError, KeyError, TypeError, ValueError):
        return False


@pytest.mark.parametrize("file", FILES)
def test_lint(file: str) -> None:
    """The linter's rules pass on v2 as they do on the classic model."""
    document = as_classic(read(file))
    assert {name: list(rule(document)) for name, rule in RULES.items()} == {
        name: [] for name in RULES
    }


def test_golden() -> None:
    """The small config gives the committed resource, byte for byte."""
    file = "orphanwatch-detector.json"
    text = _built("the small config", Model.V2)[file]
    assert text == golden(f"dashboards/v2/{file}", text)


@pytest.mark.parametrize("file", FILES)
def test_resource(file: str) -> None:
    """It is a resource that is named by the uid, and each of its elements stands in one place."""
    resource = read(file)
    assert resource["apiVersion"] == "dashboard.grafana.app/v2"
    assert resource["kind"] == "Dashboard"
    assert resource["metadata"] == {"name": file.removesuffix(".json")}
    spec = resource["spec"]
    assert spec["editable"] is False
    assert "Generated by orphanwatch" in spec["description"]
    assert spec["elements"].keys() == {
        f"panel-{one['spec']['id']}" for one in spec["elements"].values()
    }
    placed = [
        item["spec"]["element"]["name"]
        for row in spec["layout"]["spec"]["rows"]
        for item in row["spec"]["layout"]["spec"]["items"]
    ]
    assert sorted(placed) == sorted(spec["elements"])


def _panel(document: Document, kind: str = "timeseries") -> Document:
    return next(panel for panel in panels_of(document) if panel["type"] == kind)


def _defaults(document: Document, name: str) -> Document:
    """Return the field defaults of the first panel that has some of a kind."""
    every = (panel["fieldConfig"]["defaults"] for panel in panels_of(document))
    return next(defaults for defaults in every if name in defaults)


def _override(document: Document) -> Document:
    every = (panel["fieldConfig"]["overrides"] for panel in panels_of(document))
    found: Document = next(overrides[0] for overrides in every if overrides)
    return found


UNTOLD: dict[str, Callable[[Document], Document]] = {
    "the dashboard": lambda d: d,
    "its times": lambda d: d["time"],
    "a link of the dashboard": lambda d: d["links"][0],
    "the alert marks": lambda d: d["annotations"]["list"][0],
    "the data source's variable": lambda d: d["templating"]["list"][0],
    "a variable with a query": lambda d: d["templating"]["list"][1],
    "a variable's value": lambda d: d["templating"]["list"][1]["current"],
    "the price": lambda d: d["templating"]["list"][4],
    "a row": lambda d: d["panels"][0],
    "a panel": _panel,
    "a panel's place": lambda d: _panel(d)["gridPos"],
    "a panel's link": lambda d: _panel(d)["links"][0],
    "a panel's data source": lambda d: _panel(d)["datasource"],
    "a query's data source": lambda d: _panel(d)["targets"][0]["datasource"],
    "what a panel says of its fields": lambda d: _panel(d)["fieldConfig"],
    "field defaults": lambda d: _defaults(d, "unit"),
    "thresholds": lambda d: _defaults(d, "thresholds")["thresholds"],
    "a threshold": lambda d: _defaults(d, "thresholds")["thresholds"]["steps"][1],
    "a mapping": lambda d: _defaults(d, "mappings")["mappings"][0],
    "an override": _override,
    "an override's property": lambda d: _override(d)["properties"][0],
}


@pytest.mark.parametrize("where", UNTOLD.values(), ids=UNTOLD)
def test_unknown_field_is_refused(where: Callable[[Document], Document]) -> None:
    """A field that the translation is not told of fails the build; it is never left out."""
    document = deepcopy(read("orphanwatch-overview.json", Model.CLASSIC))
    where(document)["novelty"] = True
    with pytest.raises(RenderError, match=r"dashboard orphanwatch-overview.* would lose .*classic"):
        translate(document)


MEANT: dict[str, tuple[Callable[[Document], Document], Document]] = {
    "a dashboard's own number": (lambda d: d, {"id": 7}),
    "a panel that is repeated downwards": (_panel, {"repeatDirection": "v"}),
    "a panel's link that carries the time": (lambda d: _panel(d)["links"][0], {"keepTime": True}),
    "panels inside a collapsed row": (lambda d: d["panels"][0], {"panels": [{"id": 1}]}),
    "a query of another source than its panel's": (
        lambda d: _panel(d)["targets"][0],
        {"datasource": {"type": "loki", "uid": "logs"}},
    ),
    "a price with a choice": (lambda d: d["templating"]["list"][4], {"options": []}),
    "a price that may be several": (lambda d: d["templating"]["list"][4], {"multi": True}),
    "a variable of intervals": (lambda d: d["templating"]["list"][1], {"type": "interval"}),
}


@pytest.mark.parametrize(("where", "change"), MEANT.values(), ids=MEANT)
def test_what_v2_can_not_say_is_refused(
    where: Callable[[Document], Document], change: Document
) -> None:
    """A field that v2 has no word for may be left out only while it means nothing."""
    document = deepcopy(read("orphanwatch-overview.json", Model.CLASSIC))
    where(document).update(change)
    with pytest.raises(RenderError, match="would lose"):
        translate(document)


def test_panel_without_a_row_is_refused() -> None:
    """Every panel stands in a row; one above the first would stand nowhere."""
    document = deepcopy(read("orphanwatch-overview.json", Model.CLASSIC))
    del document["panels"][0]
    with pytest.raises(RenderError, match="above the first row"):
        translate(document)


def test_missing_field_is_refused() -> None:
    """A field that v2 needs is not made up."""
    document = deepcopy(read("orphanwatch-overview.json", Model.CLASSIC))
    del _panel(document)["title"]
    with pytest.raises(RenderError, match="there is no title"):
        translate(document)
