r"""How a store spells its task ids, and what is taken off so that the stores' ids join.

Ids match exactly. Where one store writes ``chatcmpl-7f3a`` and another ``7f3a``, each store's own
rule says what to strip; nothing is guessed, and without a rule nothing is touched.

The patterns are Python's regular expressions. They are anchored here: the prefix at the very
beginning, the suffix at the very end, where ``$`` alone would also match before a newline; a dot
is any character. What repeats a repetition, as ``(\w+)*`` does, can take for ever on an id that a
client has chosen. A database takes the pattern for one of its own: of two alternatives that begin
alike, the longer goes first, as PostgreSQL takes the longest and the others the first.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

LONGEST: Final = 1_024
"""Longer ids are left alone by the patterns: many take a time that grows with its square."""

_FORMS: Final = (
    "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    "[0-9a-f]{32}",
    "[0-9A-F]{8}-(?:[0-9A-F]{4}-){3}[0-9A-F]{12}",
    "[0-9A-F]{32}",
)
UUID_PATTERN: Final = f" ?(?:{'|'.join(_FORMS)}) ?"
"""Every spelling of a UUID that is read, from end to end."""

_UUID: Final = re.compile(UUID_PATTERN)
_HYPHENS: Final = (8, 12, 16, 20)


class IdRule(NamedTuple):
    """What is done to each task id of a store, in this order; empty patterns strip nothing."""

    strip_prefix: str = ""
    """Taken off once, where it matches at the start of the id."""
    strip_suffix: str = ""
    """Taken off once, where it matches at the end of what the prefix left."""
    uuid: bool = False
    """Write a UUID in one spelling, with hyphens and in lower case; leave all else alone.

    Read are lower and upper case, hyphens or none, and a blank before or after: so few that an
    index can be asked for each of them. What is spelled in yet another way stays as it is.
    """

    @property
    def is_set(self) -> bool:
        """Return whether the rule does anything at all."""
        return self != NO_RULE

    def apply(self, text: str) -> str:
        """Return the id as the rule leaves it; an id of which nothing is left is an empty text."""
        if len(text) <= LONGEST:
            if self.strip_prefix:
                text = _at_start(self.strip_prefix).sub("", text, count=1)
            if self.strip_suffix:
                text = _at_end(self.strip_suffix).sub("", text, count=1)
        return spell_uuid(text) if self.uuid else text


NO_RULE: Final = IdRule()
"""The rule that leaves every id as it is."""


def check_pattern(pattern: str) -> None:
    """Raise ``re.error`` for what is no pattern: ``(?i)`` must be written as ``(?i:...)``."""
    re.compile(pattern)  # on its own first: "a)|(b" would pass below
    _at_start(pattern)


def spell_uuid(text: str) -> str:
    """Return a UUID with hyphens and in lower case, and any other text as it is."""
    if _UUID.fullmatch(text) is None:
        return text
    bare = text.strip(" ").replace("-", "").lower()
    edges = (0, *_HYPHENS, len(bare))
    return "-".join(bare[start:end] for start, end in pairwise(edges))


def uuid_spellings(id_: str) -> tuple[str, ...]:
    """Return every text of which ``spell_uuid`` makes this id."""
    if spell_uuid(id_) != id_:
        return ()
    if _UUID.fullmatch(id_) is None:
        return (id_,)
    bare = id_.replace("-", "")
    forms = dict.fromkeys((id_, bare, id_.upper(), bare.upper()))
    return tuple(
        f"{before}{form}{after}" for form in forms for before in ("", " ") for after in ("", " ")
    )


@lru_cache
def _at_start(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\A(?:{pattern})", re.DOTALL)


@lru_cache
def _at_end(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})\Z", re.DOTALL)
