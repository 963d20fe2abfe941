"""A dashboard of the classic model as a resource of the v2 model: nothing is described twice.

It says what Grafana makes of the classic one when it loads it, in the words that Grafana finds.
"""

from typing import Final

from grafana_foundation_sdk.models import dashboard as classic
from grafana_foundation_sdk.models import dashboardv2 as v2
from grafana_foundation_sdk.models import resource

from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.v2 import layout
from orphanwatch.dashboards.v2.fields import Fields, plain, read
from orphanwatch.dashboards.v2.panels import panel
from orphanwatch.dashboards.v2.queries import query, source
from orphanwatch.dashboards.v2.variables import variable

_MARKS_REF: Final = "Anno"
"""How Grafana calls the one query of an annotation."""

_Panel = tuple[layout.Item, v2.PanelKind]


def translate(document: Document) -> Document:
    """Return a dashboard of the classic model as a v2 resource, as the values of its JSON.

    Raises ``RenderError`` for anything in it that the resource would not say.
    """
    translated: Document = plain(read(f"dashboard {document['uid']}", document, _resource))
    return translated


def _resource(fields: Fields) -> resource.Manifest:
    # Of the classic model alone: its version, and the number that Grafana gives.
    fields.take("schemaVersion")
    fields.drop("id", None)
    return resource.Manifest(
        api_version=v2.DashboardAPIVersion,
        kind=v2.DashboardKind,
        metadata=resource.Metadata(name=fields.take("uid")),
        spec=_dashboard(fields),
    )


def _dashboard(fields: Fields) -> v2.Dashboard:
    parts = fields.each("panels", _part)
    shown = [one for one in parts if not isinstance(one, layout.Row)]
    return v2.Dashboard(
        title=fields.take("title"),
        description=fields.take("description"),
        tags=fields.take("tags"),
        editable=fields.take("editable"),
        cursor_sync=_cursor_sync(fields.take("graphTooltip")),
        time_settings=_time_settings(fields),
        links=fields.each_same("links", v2.DashboardLink),
        variables=fields.within("templating", lambda inner: inner.each("list", variable)),
        annotations=fields.within("annotations", lambda inner: inner.each("list", _marks)),
        elements={item.element: kind for item, kind in shown},
        layout=layout.rows(one if isinstance(one, layout.Row) else one[0] for one in parts),
    )


def _part(fields: Fields) -> layout.Row | _Panel:
    kind = fields.take("type")
    if kind == "row":
        return layout.row(fields)
    number = fields.take("id")
    # Like the number, the name never changes: it is what a tool that edits the resource finds.
    item = layout.Item(f"panel-{number}", layout.place(fields))
    return item, panel(fields, number, kind)


def _cursor_sync(number: int) -> v2.DashboardCursorSync:
    return v2.DashboardCursorSync[classic.DashboardCursorSync(number).name]


def _time_settings(fields: Fields) -> v2.TimeSettingsSpec:
    start, end = fields.within("time", lambda time: (time.take("from"), time.take("to")))
    return v2.TimeSettingsSpec(
        timezone=fields.take("timezone"),
        from_val=start,
        to=end,
        auto_refresh=fields.take("refresh"),
        fiscal_year_start_month=fields.take("fiscalYearStartMonth"),
    )


def _marks(fields: Fields) -> v2.AnnotationQueryKind:
    asked = {"expr": fields.take("expr"), "refId": _MARKS_REF}
    return v2.AnnotationQueryKind(
        v2.AnnotationQuerySpec(
            name=fields.take("name"),
            query=query(source(fields), asked),
            enable=fields.take("enable"),
            hide=fields.take("hide"),
            icon_color=fields.take("iconColor"),
            built_in=bool(fields.take("builtIn")),
        )
    )
