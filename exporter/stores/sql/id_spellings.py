"""Which spellings an id may have in a store that has a rule for its ids: what an index finds."""

import re
from typing import Final

from orphanwatch.exporter.ids import IdRule, uuid_spellings

_LITERAL: Final = re.compile(r"[A-Za-z0-9_:/@ -]*")


def spellings(rule: IdRule, key: str) -> tuple[str, ...] | None:
    """Return every spelling that the rule leaves as ``key``, perhaps a few more.

    None where a pattern matches too many texts to list them.
    """
    if not (_LITERAL.fullmatch(rule.strip_prefix) and _LITERAL.fullmatch(rule.strip_suffix)):
        return None
    cores = uuid_spellings(key) if rule.uuid else (key,)
    return tuple(
        dict.fromkeys(
            prefix + core + suffix
            for core in cores
            for prefix in ("", rule.strip_prefix)
            for suffix in ("", rule.strip_suffix)
        )
    )
