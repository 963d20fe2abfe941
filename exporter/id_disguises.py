"""How ids are disguised in practice: from a sample of ids, the rules that might bare them.

A rule is only ever tried: whether it makes ids join, and merges none, is ``id_advice``'s business.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from orphanwatch.exporter.ids import IdRule

KNOWN_SUFFIXES: Final = ("-[0-9a-f]{8}", "_cache_hit[0-9.]+", ":[0-9]+")
"""What engines (vLLM), caches (LiteLLM) and retries append: never the same twice."""

_DELIMITER: Final = re.compile(r"[-_:/.]")
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")

_RUN: Final = re.compile(r"[^\W_]+")

# What is left of an id must be no likely coincidence: "user-7" and "task-7" are not one thing.
_LEAST_RUN: Final = 8
_LEAST_CHARACTERS: Final = 16
_LEAST_DIGITS: Final = 12

# An affix counts as the store's own if this part of the ids has it; of one id, each might be.
_COMMON_SHARE: Final = 0.1
_DELIMITERS_LOOKED_AT: Final = 4
_MOST_AFFIXES: Final = 4


def possible_rules(ids: Collection[str]) -> list[IdRule]:
    """Return the rules that do something to some of the ids, the simplest first.

    Of several that do the same to all of them, only the simplest is there.
    """
    prefixes, suffixes = ("", *_prefixes(ids)), ("", *_suffixes(ids))
    rules = [
        IdRule(prefix, suffix, uuid)
        for prefix in prefixes
        for suffix in suffixes
        for uuid in (False, True)
    ]
    simplest: dict[tuple[str, ...], IdRule] = {}
    for rule in sorted(rules, key=complexity):
        simplest.setdefault(tuple(map(rule.apply, ids)), rule)
    return list(simplest.values())


def complexity(rule: IdRule) -> tuple[int, int]:
    """Return how much a rule asks a reader to understand: its parts, then their length."""
    return (
        bool(rule.strip_prefix) + bool(rule.strip_suffix) + rule.uuid,
        len(rule.strip_prefix) + len(rule.strip_suffix),
    )


def is_telling(text: str) -> bool:
    """Return whether two equal ids of this kind can hardly be a coincidence.

    Long enough, and no mere word: with digits in it, or longer than words are.
    """
    runs = _RUN.findall(text)
    characters, longest = "".join(runs), max(map(len, runs), default=0)
    if characters.isdigit():
        return len(characters) >= _LEAST_DIGITS
    if not any(map(str.isdigit, characters)):
        return longest >= _LEAST_CHARACTERS
    return longest >= _LEAST_RUN or len(characters) >= _LEAST_CHARACTERS


def _prefixes(ids: Collection[str]) -> list[str]:
    """Return what many ids begin with, up to a delimiter, as patterns."""
    found = _common(ids, (_heads(one) for one in ids))
    several = [head for head in found if len(_DELIMITER.findall(head)) == 1]
    patterns = [_literal(head) for head in found]
    # Of two that begin alike, the longer must be tried first.
    longest_first = sorted(several, key=len, reverse=True)
    return patterns + ["|".join(map(_literal, longest_first))] * (len(several) > 1)


def _suffixes(ids: Collection[str]) -> list[str]:
    """Return what ids are known to end with, and what many of these do, as patterns."""
    known = [
        pattern
        for pattern in KNOWN_SUFFIXES
        if any(IdRule(strip_suffix=pattern).apply(one) != one for one in ids)
    ]
    tails = [
        _literal(tail)
        for tail in _common(ids, (_tails(one) for one in ids))
        if not any(re.fullmatch(pattern, tail) for pattern in KNOWN_SUFFIXES)
    ]
    return known + tails + ["|".join(known)] * (len(known) > 1)


def _common(ids: Collection[str], affixes: Iterable[Iterable[str]]) -> list[str]:
    """Return the affixes that are no single id's own, the commonest first.

    Of a single id, those that do not look like an id themselves.
    """
    counts = Counter(affix for several in affixes for affix in several)
    least = min(len(ids), max(2, _COMMON_SHARE * len(ids)))
    common = [
        affix
        for affix, count in counts.items()
        if count >= least and (len(ids) > 1 or not is_telling(affix))
    ]
    return sorted(common, key=lambda affix: (-counts[affix], len(affix), affix))[:_MOST_AFFIXES]


def _heads(text: str) -> Iterator[str]:
    for delimiter in islice(_DELIMITER.finditer(text), _DELIMITERS_LOOKED_AT):
        if delimiter.end() < len(text):
            yield text[: delimiter.end()]


def _tails(text: str) -> Iterator[str]:
    for delimiter in islice(_DELIMITER.finditer(text[::-1]), _DELIMITERS_LOOKED_AT):
        if delimiter.end() < len(text):
            yield text[len(text) - delimiter.end() :]


def _literal(text: str) -> str:
    return _SPECIAL.sub(lambda special: "\\" + special[0], text)
