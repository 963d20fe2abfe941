"""Fields of a JSON document by their paths."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final


class Missing(Enum):
    """What a path that leads nowhere leads to: not the same as a field that is empty."""

    ABSENT = "absent"


ABSENT: Final = Missing.ABSENT

Find = Callable[[Any], Any]
"""From a document to what a field holds, or ``ABSENT``."""


def is_empty(value: object) -> bool:
    """Return whether a field that is there says nothing: gateways write all three."""
    return value is None or value == "" or value == "-"  # noqa: PLR1714  (once for every field)


def field_at(path: str) -> Find:
    """Return how the field of a path is found; a number in a path counts within a list.

    A key that is spelled like the whole path goes first, since dots stand in keys too:
    ``gen_ai.usage.total_tokens``. Then ``a.b`` is ``b`` within ``a``, the longer key first.
    """
    if "." not in path:
        return lambda document: _member(document, path)
    steps = path.split(".")
    splits = [
        (".".join(steps[:size]), field_at(".".join(steps[size:])))
        for size in range(len(steps) - 1, 0, -1)
    ]

    def find(document: Any) -> Any:
        whole = _member(document, path)
        if whole is not ABSENT:
            return whole
        for key, find_rest in splits:
            within = _member(document, key)
            if within is not ABSENT and (found := find_rest(within)) is not ABSENT:
                return found
        return ABSENT

    return find


def first_stated(paths: str | Sequence[str]) -> Find:
    """Return how the first of several fields that says something is found.

    It finds None where one is there but all are empty, and ``ABSENT`` where none is there.
    """
    if isinstance(paths, str):
        return _stated(paths)
    finds = [_stated(path) for path in paths]

    def find(document: Any) -> Any:
        found: Any = ABSENT
        for find_one in finds:
            value = find_one(document)
            if value is not ABSENT:
                found = value
                if value is not None:
                    break
        return found

    return find


def _stated(path: str) -> Find:
    find_one = field_at(path)
    is_key = "." not in path

    def find(document: Any) -> Any:
        is_quick = is_key and type(document) is dict
        value = document.get(path, ABSENT) if is_quick else find_one(document)
        return None if is_empty(value) else value

    return find


def _member(document: Any, key: str) -> Any:
    if isinstance(document, dict):
        return document.get(key, ABSENT)
    if isinstance(document, list) and key.isdecimal() and int(key) < len(document):
        return document[int(key)]
    return ABSENT
