"""The variables of the v2 model."""

from collections.abc import Callable
from typing import Final, TypedDict

from grafana_foundation_sdk.models import dashboard as classic
from grafana_foundation_sdk.models import dashboardv2 as v2

from orphanwatch.dashboards.v2.fields import Fields, plain
from orphanwatch.dashboards.v2.queries import query, source

_QUERY_REF: Final = "PrometheusVariableQueryEditor-VariableQuery"
"""How Grafana calls the one query of a variable."""
_OF_INTERVALS: Final = {"auto": False, "auto_count": 30, "auto_min": "10s"}
"""What the library writes into every variable, and means something in one of intervals only."""
_OF_CHOICES: Final = {"multi": False, "includeAll": False, "allowCustomValue": True}
"""Likewise, of a variable with values to choose from."""


class _Every(TypedDict):
    name: str
    label: str | None
    description: str | None
    skip_url_sync: bool
    current: v2.VariableOption | None


class _Choice(_Every):
    multi: bool
    include_all: bool
    all_value: str | None
    allow_custom_value: bool


def variable(fields: Fields) -> v2.VariableKind:
    """Return a variable of one of the kinds that we have; ``RenderError`` for another."""
    for name, meaningless in _OF_INTERVALS.items():
        fields.drop(name, meaningless)
    kind = fields.take("type")
    if kind not in _KINDS:
        raise fields.lost(f"a variable of the type {kind}")
    return _KINDS[kind](fields)


def _source(fields: Fields) -> v2.VariableKind:
    return v2.DatasourceVariableKind(
        v2.DatasourceVariableSpec(plugin_id=fields.take("query"), **_choice(fields))
    )


def _query(fields: Fields) -> v2.VariableKind:
    asked = {"query": fields.take("query"), "refId": _QUERY_REF}
    return v2.QueryVariableKind(
        v2.QueryVariableSpec(
            query=query(source(fields), asked),
            refresh=v2.VariableRefresh[classic.VariableRefresh(fields.take("refresh")).name],
            sort=v2.VariableSort[classic.VariableSort(fields.take("sort")).name],
            **_choice(fields),
        )
    )


def _text(fields: Fields) -> v2.VariableKind:
    for name, meaningless in _OF_CHOICES.items():
        fields.drop(name, meaningless)
    options = fields.each_same("options", v2.VariableOption)
    every = _every(fields)
    # The classic model repeats what stands in the box as the one thing to choose.
    if plain(options) != plain([every["current"]]):
        raise fields.lost("options")
    return v2.TextVariableKind(v2.TextVariableSpec(query=fields.take("query"), **every))


_KINDS: Final[dict[str, Callable[[Fields], v2.VariableKind]]] = {
    "datasource": _source,
    "query": _query,
    "textbox": _text,
}


def _every(fields: Fields) -> _Every:
    return _Every(
        name=fields.take("name"),
        label=fields.take_if_any("label"),
        description=fields.take_if_any("description"),
        skip_url_sync=fields.take("skipUrlSync"),
        current=fields.same("current", v2.VariableOption),
    )


def _choice(fields: Fields) -> _Choice:
    return _Choice(
        **_every(fields),
        multi=fields.take("multi"),
        include_all=fields.take("includeAll"),
        all_value=fields.take_if_any("allValue"),
        allow_custom_value=fields.take("allowCustomValue"),
    )
