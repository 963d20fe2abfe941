"""From samples of the stores' ids to the normalising that would make them join.

Pure: nothing is asked, nothing is applied. The ids are as the stores hold them, before any rule.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from orphanwatch.exporter.id_disguises import complexity, is_telling, possible_rules
from orphanwatch.exporter.ids import NO_RULE, IdRule, spell_uuid
from orphanwatch.exporter.names import StoreName

Samples = Mapping[StoreName, Collection[str]]
Rules = Mapping[StoreName, IdRule]
Pair = tuple[StoreName, StoreName]

PAIRS: Final = (
    (StoreName.LEDGER, StoreName.GATEWAY),
    (StoreName.LEASES, StoreName.GATEWAY),
    (StoreName.LEASES, StoreName.LEDGER),
)
"""Whose ids are looked up, and where."""

# Who changes least willingly comes first: most things hang on the gateway's ids.
_STORES: Final = (StoreName.GATEWAY, StoreName.LEASES, StoreName.LEDGER)

# Less than this part of what could join is noise, not a spelling.
_LEAST_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCount:
    """How many ids of a pair's first store the second has, under the present and the new rules."""

    before: int
    after: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Two ids of one store that a rule would make one."""

    store: StoreName
    ids: tuple[str, str]
    into: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The whole rule of each store that should have another one, and what it does."""

    rules: Rules
    joins: Mapping[Pair, JoinCount]
    """Of the pairs for which something changes."""
    merged: Merged | None = None
    """What speaks against it, if anything does: then it must not be followed blindly."""


def advise(samples: Samples, current: Rules) -> Advice | None:
    """Return the simplest normalising that joins most, None where none joins noticeably more.

    What would merge two ids of one store is only returned, as such, where nothing else helps.
    """
    stores = [store for store in _STORES if samples.get(store)]
    ids = {store: frozenset(samples[store]) for store in stores}
    found = {store: _Candidates(store, ids[store], current.get(store, NO_RULE)) for store in stores}
    for may_merge in (False, True):
        advice = _advice(found, _Search(found, may_merge=may_merge).best())
        if advice is not None:
            return advice
    return None


def merged_by(rule: IdRule, store: StoreName, ids: Collection[str]) -> Merged | None:
    """Return two ids that a rule makes one, None where it makes none.

    Two spellings of one UUID are no two ids.
    """
    seen: dict[str, str] = {}
    for one in sorted(set(ids)):
        into = rule.apply(one)
        other = seen.setdefault(into, one)
        if other != one and not (rule.uuid and _is_spelling(other, one)):
            return Merged(store=store, ids=(other, one), into=into)
    return None


def _is_spelling(one: str, other: str) -> bool:
    """Return whether two ids with one UUID in them differ in how they write it, and no more."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    return re.sub("[ -]", "", spell_uuid(text).lower())


class _Candidates:
    """The rules that one store could have, and what each makes of its ids."""

    def __init__(self, store: StoreName, ids: frozenset[str], current: IdRule) -> None:
        rules = dict.fromkeys((current, *_parts(current), *possible_rules(ids)))
        if current.uuid:
            # It rarely does harm, and what is set is not to be taken back without need.
            rules |= dict.fromkeys([rule._replace(uuid=True) for rule in rules])
        self.ids = ids
        self.current = current
        self.merges = {rule: merged_by(rule, store, ids) for rule in rules if rule != current}
        self.normal = {rule: _normal(rule, ids) for rule in rules}
        self.telling = {rule: frozenset(filter(is_telling, self.normal[rule])) for rule in rules}

    def allowed(self, *, may_merge: bool) -> list[IdRule]:
        """Return the rules that merge nothing, or all of them."""
        return [rule for rule in self.normal if may_merge or self.merges.get(rule) is None]


def _parts(rule: IdRule) -> Iterator[IdRule]:
    """Yield a rule without one or more of its parts."""
    for kept in product(*((part, none) for part, none in zip(rule, NO_RULE, strict=True))):
        yield IdRule._make(kept)


def _changes(before: IdRule, after: IdRule) -> int:
    """Return how many keys of the config differ."""
    return sum(1 for old, new in zip(before, after, strict=True) if old != new)


def _normal(rule: IdRule, ids: Collection[str]) -> Counter[str]:
    """Return what a rule makes of ids, and of how many each; an id that is gone is none."""
    normal = Counter(map(rule.apply, ids))
    del normal[""]
    return normal


def _joined(one: _Candidates, rule: IdRule, other: _Candidates, its_rule: IdRule) -> int:
    """Return how many ids of one two rules make the other's; short ones only if they are as is."""
    mine, theirs = one.normal[rule], other.normal[its_rule]
    if rule == one.current and its_rule == other.current:
        both = mine.keys() & theirs.keys()
    else:
        # Ids that are equal are telling on both sides, or on none.
        short = mine.keys() & one.ids & theirs.keys() & other.ids - one.telling[rule]
        both = short | (one.telling[rule] & other.telling[its_rule])
    return sum(mine[id_] for id_ in both)


class _Search:
    """The rules that all stores could have, and how many ids each two of them make join."""

    def __init__(self, found: Mapping[StoreName, _Candidates], *, may_merge: bool) -> None:
        self._found = found
        self._pairs = [(one, other) for one, other in PAIRS if one in found and other in found]
        allowed = {store: found[store].allowed(may_merge=may_merge) for store in found}
        self._counts = {
            (one, rule, other, its_rule): count
            for one, other in self._pairs
            for rule in allowed[one]
            for its_rule in allowed[other]
            if (count := _joined(found[one], rule, found[other], its_rule))
        }
        # A rule that makes nothing join with whatever else is no choice.
        useful = {(store, found[store].current) for store in found}
        for one, rule, other, its_rule in self._counts:
            useful |= {(one, rule), (other, its_rule)}
        self._rules = {
            store: [rule for rule in rules if (store, rule) in useful]
            for store, rules in allowed.items()
        }

    def best(self) -> dict[StoreName, IdRule]:
        """Return the rules that join most; of those that join as many, the least change."""
        choice = min(product(*self._rules.values()), key=self._demerit)
        return dict(zip(self._found, choice, strict=True))

    def _demerit(self, choice: tuple[IdRule, ...]) -> tuple[object, ...]:
        chosen = dict(zip(self._found, choice, strict=True))
        total = sum(
            self._counts.get((one, chosen[one], other, chosen[other]), 0)
            for one, other in self._pairs
        )
        changed = [_changes(self._found[store].current, rule) for store, rule in chosen.items()]
        parts, lengths = zip(*map(complexity, choice), strict=True)
        return (-total, sum(changed), sum(parts), sum(lengths), changed)


def _advice(
    found: Mapping[StoreName, _Candidates], choice: Mapping[StoreName, IdRule]
) -> Advice | None:
    joins = {
        (one, other): JoinCount(
            before=_joined(found[one], found[one].current, found[other], found[other].current),
            after=_joined(found[one], choice[one], found[other], choice[other]),
            of=len(found[one].ids),
        )
        for one, other in PAIRS
        if one in found and other in found
    }
    gain = sum(count.after - count.before for count in joins.values())
    if gain < max(1, _LEAST_SHARE * sum(count.of for count in joins.values())):
        return None
    rules = {store: rule for store, rule in choice.items() if rule != found[store].current}
    merges = (found[store].merges[rule] for store, rule in rules.items())
    return Advice(
        rules=rules,
        joins={pair: count for pair, count in joins.items() if count.after != count.before},
        merged=next((merged for merged in merges if merged is not None), None),
    )
