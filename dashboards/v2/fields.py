"""Reads an object of a dashboard field by field, so that none is lost on the way to another model.

What nobody takes is an error: a panel without its threshold looks as calm as one below it.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from orphanwatch.dashboards.classic import Document
from orphanwatch.exporter.errors import RenderError


class _Decoded(Protocol):
    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self: ...


D = TypeVar("D", bound=_Decoded)
T = TypeVar("T")


class Fields:
    """The fields of one object that are not taken yet; ``read`` hands them out."""

    def __init__(self, place: str, values: Document) -> None:
        self._place = place
        self._left = dict(values)

    def take(self, name: str) -> Any:
        """Return a field's value; ``RenderError`` where there is no such field."""
        if name not in self._left:
            raise RenderError(f"{self._place}: there is no {name}")
        return self._left.pop(name)

    def take_if_any(self, name: str) -> Any:
        """Return a field's value, None where there is no such field."""
        return self._left.pop(name, None)

    def take_rest(self) -> Document:
        """Return what is left, for a part of the other model that holds anything."""
        rest, self._left = self._left, {}
        return rest

    def drop(self, name: str, *meaningless: object) -> None:
        """Leave a field out; one with another value than these means something: ``RenderError``."""
        if name in self._left and self._left.pop(name) not in meaningless:
            raise self.lost(name)

    def within(self, name: str, reading: "Callable[[Fields], T]") -> T:
        """Return what is made of an object that stands in this one."""
        return read(f"{self._place}, {name}", self.take_if_any(name) or {}, reading)

    def each(self, name: str, reading: "Callable[[Fields], T]") -> list[T]:
        """Return what is made of each object of a list that stands in this one."""
        return [
            read(f"{self._place}, {name} {number}", values, reading)
            for number, values in enumerate(self.take_if_any(name) or (), start=1)
        ]

    def same(self, name: str, kind: type[D]) -> D | None:
        """Return an object that has one form in both models, None where there is none."""
        values = self.take_if_any(name)
        return None if values is None else self._decoded(name, kind, values)

    def each_same(self, name: str, kind: type[D]) -> list[D]:
        """Return the objects of a list that have one form in both models."""
        return [self._decoded(name, kind, values) for values in self.take_if_any(name) or ()]

    def end(self) -> None:
        """Raise ``RenderError`` where a field is left that nobody took."""
        if self._left:
            raise self.lost(", ".join(sorted(self._left)))

    def lost(self, what: str) -> RenderError:
        """Return the error for what the other model would not say."""
        return RenderError(
            f"{self._place}: the v2 model would lose {what}; build --model classic, and report this"
        )

    def _decoded(self, name: str, kind: type[D], values: Document) -> D:
        made = kind.from_json(values)
        if plain(made) != values:
            raise self.lost(f"a part of {name}")
        return made


def read(place: str, values: Document, reading: Callable[[Fields], T]) -> T:
    """Return what is made of an object; raises ``RenderError`` for a field that was not taken."""
    fields = Fields(place, values)
    made = reading(fields)
    fields.end()
    return made


def plain(made: object) -> Any:
    """Return what one of the library's objects is in JSON."""
    return json.loads(json.dumps(made, cls=JSONEncoder))
