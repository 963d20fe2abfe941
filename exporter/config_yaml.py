"""Reads the YAML of a config file: strict about keys, and bounded whatever its aliases do."""

import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from orphanwatch.exporter.errors import ConfigError

_LARGEST: Final = 100_000
"""Values in one configuration; the largest real ones have some hundreds."""


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML that refuses a key written twice, where the last one would win in silence."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "a list or mapping is no key", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} stands twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_yaml(path: Path) -> Any:
    """Return the mapping that a file holds.

    Raises ``ConfigError`` for a file that can't be read, is no YAML, holds no mapping, has a key
    twice, or says more than a configuration does once its aliases are followed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), (f"can't be read: {error.strerror}",)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ("is not UTF-8 text",)) from error
    try:
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or "is not YAML"
        raise ConfigError(str(path), (f"{where}{reason}",)) from None
    except RecursionError:
        raise ConfigError(str(path), ("nests too deeply",)) from None
    if not isinstance(document, dict):
        raise ConfigError(str(path), ("is no mapping; it needs at least pools and stores",))
    if _size(document, {}) > _LARGEST:
        raise ConfigError(str(path), ("its aliases make it larger than any configuration",))
    return document


def _size(value: Any, known: dict[int, float]) -> float:
    """Return how many values there are with all aliases followed, without following them.

    A few lines of YAML can stand for billions of values: each that is shared is looked at once.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # what is met again below itself has no end
        children = value if isinstance(value, list) else value.values()
        known[id(value)] = 1 + sum(_size(child, known) for child in children)
    return known[id(value)]
