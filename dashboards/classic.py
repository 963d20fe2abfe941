"""Grafana's classic model of a dashboard: what the library builds, without what it adds unasked."""

import json
from collections.abc import Iterator
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder

Document = dict[str, Any]
"""The values of a dashboard's JSON."""

SCHEMA_VERSION: Final = 36
"""That of Grafana 9. Each later one upgrades it, but some refuse a number above their own."""


def document(built: builders.Dashboard) -> Document:
    """Return a dashboard as the values of its JSON, as Grafana 9 to 13 take them."""
    payload: Document = json.loads(json.dumps(built.build(), cls=JSONEncoder))
    # Grafana gives the number when it imports; a number of ours would overwrite somebody's.
    payload["id"] = None
    payload["schemaVersion"] = SCHEMA_VERSION
    for shown in _links_and_marks(payload):
        # Into a menu: what to do at 02:17 has to be in sight.
        shown.pop("placement", None)
    for panel in payload["panels"]:
        # Pages of 20 bars: the one that turned red may be on the second.
        panel.get("options", {}).pop("perPage", None)
    return payload


def _links_and_marks(payload: Document) -> Iterator[Document]:
    yield from payload["links"]
    yield from payload["annotations"]["list"]
    for panel in payload["panels"]:
        yield from panel.get("links", ())
