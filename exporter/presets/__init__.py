"""The systems that people run, as presets: what ``preset: NAME`` fills in.

One module a system, with a ``PRESET``; its page is ``docs/presets/NAME.md``. What the user writes
goes before what a preset says, key by key, within ``columns:`` too.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orphanwatch.exporter.names import StoreName

PRESETS: Final = (
    "bullmq",
    "celery",
    "envoy",
    "litellm",
    "litellm-metrics",
    "llamacpp",
    "nginx",
    "procrastinate",
    "rq",
    "sglang",
    "tgi",
    "vllm",
)
"""Their names, in the order in which they are listed."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One system: which stores it can be, and with which settings."""

    name: str
    title: str
    """What it is, in a few words, for ``init`` and the docs."""
    stores: Mapping[StoreName, Mapping[str, Any]]
    """The settings of each store it can be, ``type`` among them."""
    asks: Mapping[StoreName, Mapping[str, Any]] = field(default_factory=dict)
    """What only the user knows, with an example value each: urls and paths, for ``init``."""
    notes: tuple[str, ...] = ()
    """What it can't see, and what to set so that ids join: a sentence each, for ``init``."""


def preset_of(name: str) -> Preset:
    """Return a preset by its name; raises ``KeyError`` for one that there is none of."""
    if name not in PRESETS:
        raise KeyError(name)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    preset: Preset = module.PRESET
    return preset


def filled_in(settings: Mapping[str, Any], preset: Preset, store: StoreName) -> dict[str, Any]:
    """Return a store's settings with what its preset says where the user says nothing.

    Raises ``KeyError`` where the system is no such store.
    """
    defaults = preset.stores[store]
    merged = {**defaults, **settings}
    for key in ("columns", "metrics"):
        theirs, own = defaults.get(key), settings.get(key)
        if isinstance(theirs, Mapping) and isinstance(own, Mapping):
            merged[key] = {**theirs, **own}
    return merged
