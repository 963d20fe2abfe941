"""The panels of the v2 model, which calls them elements."""

from typing import Final

from grafana_foundation_sdk.models import dashboardv2 as v2

from orphanwatch.dashboards.v2.fields import Fields
from orphanwatch.dashboards.v2.queries import Source, query, source

_OF_DASHBOARD_LINKS: Final = {
    "type": "link",
    "icon": "",
    "tooltip": "",
    "tags": [],
    "asDropdown": False,
    "includeVars": False,
    "keepTime": False,
}
"""What the library writes into a panel's link too, where it means nothing."""


def panel(fields: Fields, number: int, kind: str) -> v2.PanelKind:
    """Return a panel, all but its place."""
    # The direction of repeats that there are none of.
    fields.drop("repeatDirection", "h")
    return v2.PanelKind(
        v2.PanelSpec(
            id_val=number,
            title=fields.take("title"),
            description=fields.take("description"),
            transparent=fields.take("transparent"),
            links=fields.each("links", _link),
            data=_data(fields),
            viz_config=v2.VizConfigKind(
                group=kind,
                spec=v2.VizConfigSpec(
                    options=fields.take("options"),
                    field_config=fields.same("fieldConfig", v2.FieldConfigSource),
                ),
            ),
        )
    )


def _link(fields: Fields) -> v2.DataLink:
    for name, meaningless in _OF_DASHBOARD_LINKS.items():
        fields.drop(name, meaningless)
    return v2.DataLink(fields.take("title"), fields.take("url"), fields.take("targetBlank"))


def _data(fields: Fields) -> v2.QueryGroupKind:
    of_panel = source(fields)
    return v2.QueryGroupKind(
        v2.QueryGroupSpec(fields.each("targets", lambda inner: _target(inner, of_panel)))
    )


def _target(fields: Fields, of_panel: Source) -> v2.PanelQueryKind:
    asked_of = source(fields)
    if asked_of != of_panel:
        # v2 has the data sources of queries only; Grafana reads ours back from the first of them.
        raise fields.lost("the panel's own data source")
    ref = fields.take("refId")
    return v2.PanelQueryKind(
        v2.PanelQuerySpec(query=query(asked_of, fields.take_rest()), ref_id=ref)
    )
