"""What Grafana's dashboard-linter checks in strict mode, done again: all of its 17 rules.

Each rule takes a dashboard (classic model) and yields what it has against it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import promql_parser as promql
from grafana_foundation_sdk.models import units
from panel_answers import panels_of
from promql_facts import matchers, selectors

Document = dict[str, Any]
Rule = Callable[[Document], Iterator[str]]

UNITS: Final = {
    value for name, value in vars(units).items() if isinstance(value, str) and name[0] != "_"
}
SOURCES: Final = {"$datasource", "${datasource}"}
_DRAWN: Final = {"stat", "singlestat", "graph", "table", "timeseries", "gauge"}
_ASKING: Final = {"singlestat", "graph", "table", "stat", "state-timeline", "timeseries"}
_RATE_SECONDS: Final = 11277964
_GLOBAL: Final = ("__interval", "__interval_ms", "__range_ms", "__range_s", "__range")


def variables(document: Document) -> list[Document]:
    """Return the dashboard's variables."""
    found: list[Document] = document["templating"]["list"]
    return found


def targets(document: Document) -> Iterator[tuple[Document, Document]]:
    """Yield every query with its panel."""
    for panel in panels_of(document):
        for target in panel.get("targets", []):
            yield panel, target


def expanded(expr: str, document: Document) -> str:
    """Return a query as the linter reads it: within quotes a variable stays, else it is a text.

    A variable whose value now is a number becomes a number, and Grafana's own become times.
    """
    numbers = count(_RATE_SECONDS + 1)
    values = {name: f"{next(numbers)}s" for name in _GLOBAL}
    values["__rate_interval"] = f"{_RATE_SECONDS}s"
    for variable in variables(document):
        value = str(variable.get("current", {}).get("value", ""))
        is_number = re.fullmatch(r"\d+", value) is not None
        values[variable["name"]] = str(next(numbers)) if is_number else "bgludgvy"
    return re.sub(
        r'"?\$(\w+)', lambda found: found[0] if found[0][0] == '"' else values[found[1]], expr
    )


def parsed(expr: str, document: Document) -> promql.Expr | None:
    """Return the syntax tree, None where there is none."""
    try:
        return promql.parse(expanded(expr, document))
    except (ValueError, KeyError):
        return None


def template_datasource(document: Document) -> Iterator[str]:
    """There is a variable for the data source, named and labelled as is usual."""
    found = [one for one in variables(document) if one["type"] == "datasource"]
    if not found:
        yield "no variable for the data source"
    for one in found:
        if (one["name"], one["query"]) not in {
            ("datasource", "prometheus"),
            ("prometheus_datasource", "prometheus"),
        }:
            yield f"data source variable {one['name']} for {one['query']}"
        if one["label"] not in {"Data source", "Prometheus data source"}:
            yield f"data source variable is labelled {one['label']}"


def _label_variable(document: Document, name: str) -> Iterator[str]:
    found = [one for one in variables(document) if one["name"] == name]
    if not found:
        yield f"no variable {name}"
    for one in found:
        expected = {"type": "query", "label": name, "multi": True, "allValue": ".+"}
        yield from (
            f"{name}: {key} is {one.get(key)}" for key in expected if one.get(key) != expected[key]
        )
        if one["datasource"]["uid"] not in SOURCES:
            yield f"{name} has a fixed data source"


def template_job(document: Document) -> Iterator[str]:
    """There is a variable job."""
    return _label_variable(document, "job")


def template_instance(document: Document) -> Iterator[str]:
    """There is a variable instance."""
    return _label_variable(document, "instance")


def template_label_promql(document: Document) -> Iterator[str]:
    """The queries of variables can be read."""
    for one in variables(document):
        if one["type"] == "query":
            inner = re.fullmatch(r"label_values\((.+),\s*\w+\)", one["query"])
            if inner is None or parsed(inner[1], document) is None:
                yield f"{one['name']} asks {one['query']}"


def template_on_time_change_reload(document: Document) -> Iterator[str]:
    """Variables are asked again when the time shown changes."""
    for one in variables(document):
        if one["type"] == "query" and one.get("refresh") != 2:
            yield f"{one['name']} refreshes on {one.get('refresh')}"


def panel_datasource(document: Document) -> Iterator[str]:
    """Panels ask the variable data source."""
    for panel in panels_of(document):
        if panel["datasource"]["uid"] not in SOURCES:
            yield f"{panel['title']} asks {panel['datasource']['uid']}"


def panel_title_description(document: Document) -> Iterator[str]:
    """Panels have a title and a description."""
    for panel in panels_of(document):
        if not panel.get("title") or not panel.get("description"):
            yield f"panel {panel['id']} has no title or description"


def panel_units(document: Document) -> Iterator[str]:
    """Panels have a unit of Grafana's list."""
    for panel in panels_of(document):
        unit = panel["fieldConfig"]["defaults"].get("unit")
        if unit not in UNITS:
            yield f"{panel['title']} has the unit {unit}"


def panel_no_targets(document: Document) -> Iterator[str]:
    """Panels ask something."""
    for panel in panels_of(document):
        if panel["type"] in _DRAWN | _ASKING | {"heatmap"} and not panel.get("targets"):
            yield f"{panel['title']} asks nothing"


def target_logql(document: Document) -> Iterator[str]:
    """Queries of logs can be read; we have none, so any is one too many."""
    for panel, target in targets(document):
        if target["datasource"]["type"] != "prometheus":
            yield f"{panel['title']} asks {target['datasource']['type']}"


def target_logql_auto(document: Document) -> Iterator[str]:
    """Ranges over logs follow the zoom."""
    for panel, target in targets(document):
        if "$__auto" in target["expr"]:
            yield f"{panel['title']} asks over the range of logs"


def target_promql(document: Document) -> Iterator[str]:
    """Queries can be read."""
    for panel, target in targets(document):
        if parsed(target["expr"], document) is None:
            yield f"{panel['title']}: {target['expr']}"


def _calls(tree: promql.Expr) -> Iterator[tuple[str, promql.MatrixSelector]]:
    """Yield the name of each function with the range that it is over."""
    found: list[tuple[str, promql.MatrixSelector]] = []

    def collect(node: object) -> bool:
        if isinstance(node, promql.Call):
            found.extend(
                (node.func.name, arg) for arg in node.args if isinstance(arg, promql.MatrixSelector)
            )
        return True

    promql.walk(tree, pre_visit=collect)
    yield from found


def target_rate_interval(document: Document) -> Iterator[str]:
    """A rate is over $__rate_interval, an increase over that or over the time shown."""
    for panel, target in targets(document):
        tree = parsed(target["expr"], document)
        for name, selector in _calls(tree) if tree is not None else ():
            if name in {"rate", "irate"} and selector.range.total_seconds() != _RATE_SECONDS:
                yield f"{panel['title']}: {name} over {selector.range}"
            if name == "increase" and selector.range.total_seconds() < _RATE_SECONDS:
                yield f"{panel['title']}: {name} over {selector.range}"


def _scoped(document: Document, label: str) -> Iterator[str]:
    for panel, target in targets(document):
        if parsed(target["expr"], document) is None:
            continue
        for selector in selectors(expanded(target["expr"], document)):
            if (label, "Re", f"${label}") not in matchers(selector):
                yield f"{panel['title']}: {selector.name} does not follow {label}"


def target_job(document: Document) -> Iterator[str]:
    """Every selector follows the variable job."""
    return _scoped(document, "job")


def target_instance(document: Document) -> Iterator[str]:
    """Every selector follows the variable instance."""
    return _scoped(document, "instance")


def target_counter_agg(document: Document) -> Iterator[str]:
    """A counter stands inside rate, irate or increase; so do the parts of a histogram."""
    for panel, target in targets(document):
        tree = parsed(target["expr"], document)
        if tree is None:
            continue
        rated = {
            selector.vector_selector.prettify()
            for name, selector in _calls(tree)
            if name in {"rate", "irate", "increase"}
        }
        for selector in selectors(expanded(target["expr"], document)):
            is_counter = re.search(r"_(total|bucket|sum|count)$", selector.name or "")
            if is_counter and selector.prettify() not in rated:
                yield f"{panel['title']}: {selector.name} is read raw"


def uneditable(document: Document) -> Iterator[str]:
    """Nobody edits by hand what is generated."""
    if document["editable"] is not False:
        yield "it can be edited"


RULES: Final[dict[str, Rule]] = {
    "template-datasource-rule": template_datasource,
    "template-job-rule": template_job,
    "template-instance-rule": template_instance,
    "template-label-promql-rule": template_label_promql,
    "template-on-time-change-reload-rule": template_on_time_change_reload,
    "panel-datasource-rule": panel_datasource,
    "panel-title-description-rule": panel_title_description,
    "panel-units-rule": panel_units,
    "panel-no-targets-rule": panel_no_targets,
    "target-logql-rule": target_logql,
    "target-logql-auto-rule": target_logql_auto,
    "target-promql-rule": target_promql,
    "target-rate-interval-rule": target_rate_interval,
    "target-job-rule": target_job,
    "target-instance-rule": target_instance,
    "target-counter-agg-rule": target_counter_agg,
    "uneditable-dashboard": uneditable,
}
"""The linter's rules by their names there."""
