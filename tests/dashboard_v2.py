"""Reads a dashboard of the v2 model back into the classic one, written without its translation.

What the classic model holds besides, and what means nothing, is left out of it by ``meaningful``.
"""

from typing import Any, Final

Document = dict[str, Any]

KINDS: Final = {
    "DatasourceVariable": "datasource",
    "QueryVariable": "query",
    "TextVariable": "textbox",
}
SYNC: Final = {"Off": 0, "Crosshair": 1, "Tooltip": 2}
REFRESH: Final = {"never": 0, "onDashboardLoad": 1, "onTimeRangeChanged": 2}
SORT: Final = {"disabled": 0, "alphabeticalAsc": 1, "alphabeticalDesc": 2}
_NAMED_ALIKE: Final = ("description", "editable", "links", "tags", "title")
_NO_CHOICE: Final = {"multi", "includeAll", "allowCustomValue", "options"}
_ROW_HEADER: Final = 1


def as_classic(resource: Document) -> Document:
    """Return a v2 resource in the words of the classic model."""
    spec = resource["spec"]
    time = spec["timeSettings"]
    return {
        **{name: spec[name] for name in _NAMED_ALIKE},
        "uid": resource["metadata"]["name"],
        "graphTooltip": SYNC[spec["cursorSync"]],
        "time": {"from": time["from"], "to": time["to"]},
        "timezone": time["timezone"],
        "refresh": time["autoRefresh"],
        "fiscalYearStartMonth": time["fiscalYearStartMonth"],
        "annotations": {"list": [_marks(one["spec"]) for one in spec["annotations"]]},
        "templating": {"list": [_variable(one["kind"], one["spec"]) for one in spec["variables"]]},
        "panels": _panels(spec),
    }


def _panels(spec: Document) -> list[Document]:
    """Return rows and panels as they stand on one grid, from the top."""
    assert spec["layout"]["kind"] == "RowsLayout"
    found: list[Document] = []
    top = 0
    for row in (one["spec"] for one in spec["layout"]["spec"]["rows"]):
        place = {"x": 0, "y": top, "w": 24, "h": _ROW_HEADER}
        collapsed = row["collapse"]
        found.append(
            {"type": "row", "title": row["title"], "collapsed": collapsed, "gridPos": place}
        )
        top += _ROW_HEADER
        items = [one["spec"] for one in row["layout"]["spec"]["items"]]
        for item in items:
            panel = _panel(spec["elements"][item["element"]["name"]]["spec"])
            size = {"w": item["width"], "h": item["height"]}
            found.append({**panel, "gridPos": {**size, "x": item["x"], "y": top + item["y"]}})
        top += max(item["y"] + item["height"] for item in items)
    return found


def _panel(spec: Document) -> Document:
    shown = spec["vizConfig"]
    targets = [
        {**_query(one["query"]), "refId": one["refId"]}
        for one in (query["spec"] for query in spec["data"]["spec"]["queries"])
    ]
    panel = {
        **{name: spec[name] for name in ("id", "title", "description", "transparent", "links")},
        "type": shown["group"],
        **shown["spec"],
        "targets": targets,
    }
    return {**panel, "datasource": targets[0]["datasource"]} if targets else panel


def _query(query: Document) -> Document:
    return {**query["spec"], "datasource": _source(query)}


def _source(query: Document) -> Document:
    return {"type": query["group"], "uid": query["datasource"]["name"]}


def _marks(spec: Document) -> Document:
    kept = ("name", "enable", "hide", "iconColor")
    asked = {"expr": spec["query"]["spec"]["expr"], "datasource": _source(spec["query"])}
    return {**{name: spec[name] for name in kept}, **asked, "builtIn": int(spec["builtIn"])}


def _variable(kind: str, spec: Document) -> Document:
    optional = {"label", "description", "allValue", "multi", "includeAll", "allowCustomValue"}
    kept = {"name", "current", "skipUrlSync"} | (optional & set(spec))
    found: Document = {"type": KINDS[kind], **{name: spec[name] for name in kept}}
    if kind == "QueryVariable":
        found |= {"query": spec["query"]["spec"]["query"], "datasource": _source(spec["query"])}
        found |= {"refresh": REFRESH[spec["refresh"]], "sort": SORT[spec["sort"]]}
    else:
        found["query"] = spec["pluginId"] if kind == "DatasourceVariable" else spec["query"]
    return found


def meaningful(document: Document) -> Document:
    """Return a classic dashboard without what v2 has no word for, and says nothing here."""
    return {
        **{name: value for name, value in document.items() if name not in {"id", "schemaVersion"}},
        "panels": [_meaningful_panel(panel) for panel in document["panels"]],
        "templating": {"list": [_meaningful_variable(one) for one in _variables(document)]},
    }


def _variables(document: Document) -> list[Document]:
    found: list[Document] = document["templating"]["list"]
    return found


def _meaningful_panel(panel: Document) -> Document:
    if panel["type"] == "row":
        return {name: value for name, value in panel.items() if name not in {"id", "panels"}}
    links = [
        {name: one[name] for name in ("title", "url", "targetBlank")} for one in panel["links"]
    ]
    plain: Document = {"fieldConfig": {"defaults": {}, "overrides": []}, "targets": []}
    return {
        **plain,
        **{name: value for name, value in panel.items() if name != "repeatDirection"},
        "links": links,
    }


def _meaningful_variable(variable: Document) -> Document:
    silent = {"auto", "auto_count", "auto_min"}
    silent |= _NO_CHOICE if variable["type"] == "textbox" else set()
    found = {name: value for name, value in variable.items() if name not in silent}
    # None is chosen yet: v2 has to say so.
    return {"current": {"text": "", "value": ""}, **found}
