"""Where the panels of the v2 model stand: rows, each with a grid of its own."""

from collections.abc import Iterable
from typing import NamedTuple

from grafana_foundation_sdk.models import dashboardv2 as v2

from orphanwatch.dashboards.v2.fields import Fields
from orphanwatch.exporter.errors import RenderError

_HEADER_HEIGHT = 1
"""The line that a row's title takes on the classic grid, which is one for the whole dashboard."""


class Place(NamedTuple):
    """Where something stands on the classic grid, in cells from the left and the top."""

    x: int
    y: int
    width: int
    height: int


class Row(NamedTuple):
    """The title of a row; the panels up to the next one are in it."""

    title: str
    collapsed: bool
    place: Place


class Item(NamedTuple):
    """A panel by its element's name, in the row before it."""

    element: str
    place: Place


def place(fields: Fields) -> Place:
    """Return where an object stands."""
    return fields.within(
        "gridPos",
        lambda inner: Place(inner.take("x"), inner.take("y"), inner.take("w"), inner.take("h")),
    )


def row(fields: Fields) -> Row:
    """Return a row's title."""
    # A row of v2 has no number. Panels inside it would be those of a collapsed one.
    fields.take("id")
    fields.drop("panels", [])
    return Row(fields.take("title"), fields.take("collapsed"), place(fields))


def rows(parts: Iterable[Row | Item]) -> v2.RowsLayoutKind:
    """Return the layout; raises ``RenderError`` for a panel above the first row."""
    made: list[v2.RowsLayoutRowKind] = []
    items: list[v2.GridLayoutItemKind] = []
    top = 0
    for one in parts:
        if isinstance(one, Row):
            items = []
            top = one.place.y + _HEADER_HEIGHT
            made.append(_row(one, items))
        elif made:
            items.append(_item(one, top))
        else:
            raise RenderError(f"{one.element} stands above the first row; put it into a row")
    return v2.RowsLayoutKind(v2.RowsLayoutSpec(made))


def _row(header: Row, items: list[v2.GridLayoutItemKind]) -> v2.RowsLayoutRowKind:
    grid = v2.GridLayoutKind(v2.GridLayoutSpec(items))
    return v2.RowsLayoutRowKind(
        v2.RowsLayoutRowSpec(title=header.title, collapse=header.collapsed, layout=grid)
    )


def _item(item: Item, top: int) -> v2.GridLayoutItemKind:
    return v2.GridLayoutItemKind(
        v2.GridLayoutItemSpec(
            x=item.place.x,
            y=item.place.y - top,
            width=item.place.width,
            height=item.place.height,
            element=v2.ElementReference(item.element),
        )
    )
