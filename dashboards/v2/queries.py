"""The queries of the v2 model: of panels, variables and annotations alike."""

from typing import NamedTuple

from grafana_foundation_sdk.models import dashboardv2 as v2

from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.v2.fields import Fields


class Source(NamedTuple):
    """The data source that answers; both None where nothing is asked."""

    kind: str | None
    uid: str | None


def source(fields: Fields) -> Source:
    """Return the data source that an object names."""
    return fields.within(
        "datasource", lambda inner: Source(inner.take_if_any("type"), inner.take_if_any("uid"))
    )


def query(asked_of: Source, asked: Document) -> v2.DataQueryKind:
    """Return a query to a data source; what is asked is in the source's own words."""
    return v2.DataQueryKind(
        group=asked_of.kind or "",
        datasource=v2.Dashboardv2DataQueryKindDatasource(asked_of.uid),
        spec=asked,
    )
