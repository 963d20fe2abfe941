"""Rules about the fields of a JSON document, as a config writes them.

A rule names fields, and all of them must match. What a field is asked for is one of

- a value: ``status: 499``; a number matches its text too, and ``""`` or null an empty field;
- a list, of which one must match: ``method: [POST, PUT]``;
- a comparison: ``status: "<500"``, with ``<``, ``<=``, ``>`` or ``>=``;
- ``{has: [DC, DR]}``: one of these is among the parts of a text with commas, or of a list;
- ``{not: 499}``, of a value or a list: none of these;
- ``{matches: "^/v1/"}``: a regular expression is found in it.

A field that is not there matches nothing at all, ``""`` and ``not`` included: a log without the
field must not look as if everything in it had been cancelled.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from orphanwatch.exporter.document_fields import ABSENT, field_at, is_empty

Scalar = str | int | float | bool | None
Rule = dict[str, Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]]
"""Fields that must all match; see above."""

Test = Callable[[Any], bool]

_MOST_KNOWN: Final = 1000
_COMPARISON: Final = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lambda number, bound: number < bound,
    "<=": lambda number, bound: number <= bound,
    ">": lambda number, bound: number > bound,
    ">=": lambda number, bound: number >= bound,
}


def any_matches(rules: Sequence[Rule]) -> Test:
    """Return whether a document matches one of the rules; it matches none of none."""
    tests = [_matching(rule) for rule in rules]
    finds = [field_at(path) for path in dict.fromkeys(path for rule in rules for path in rule)]
    known: dict[Any, bool] = {}

    def matches(document: Any) -> bool:
        # Few fields with few values each: what a log says a million times is judged once.
        values = [find(document) for find in finds]
        case = (*values, *map(type, values))  # to Python, true is 1
        try:
            verdict = known.get(case)
        except TypeError:  # a list among them
            return any(test(document) for test in tests)
        if verdict is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            verdict = known[case] = any(test(document) for test in tests)
        return verdict

    return matches


def rule_problems(rule: Rule) -> Iterator[str]:
    """Yield what is wrong with a rule, without the values that it asks for."""
    if not rule:
        yield "a rule names no field, and would match everything; name one, or leave it out"
    for field, wanted in rule.items():
        if not isinstance(wanted, dict):
            continue
        unknown = [key for key in wanted if key not in _WAYS]
        if unknown or not wanted:
            said = f"{unknown[0]!r} is none of" if unknown else "write one of"
            yield f"{field}: {said} {', '.join(_WAYS)}"
        if "matches" in wanted and not _is_pattern(wanted["matches"]):
            yield f"{field}.matches: is no regular expression; write for example ^/v1/"


def _matching(rule: Rule) -> Test:
    tests = [(field_at(path), _test_for(wanted)) for path, wanted in rule.items()]

    def matches(document: Any) -> bool:
        for find, test in tests:
            value = find(document)
            if value is ABSENT or not test(value):
                return False
        return True

    return matches


def _test_for(wanted: Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]) -> Test:
    if not isinstance(wanted, dict):
        return _is_one_of(wanted)
    tests = [_WAYS[way](value) for way, value in wanted.items()]
    return lambda value: all(test(value) for test in tests)


def _is_one_of(wanted: Scalar | list[Scalar]) -> Test:
    options = wanted if isinstance(wanted, list) else [wanted]
    comparisons = [test for option in options if (test := _comparison(option)) is not None]
    plain = frozenset(_plain(option) for option in options if _comparison(option) is None)

    def is_one(value: Any) -> bool:
        return _plain(value) in plain or any(test(value) for test in comparisons)

    return is_one


def _is_none_of(wanted: Scalar | list[Scalar]) -> Test:
    is_one = _is_one_of(wanted)
    return lambda value: not is_one(value)


def _has(wanted: Scalar | list[Scalar]) -> Test:
    is_one = _is_one_of(wanted)

    def has(value: Any) -> bool:
        parts = value if isinstance(value, list) else str(value).split(",")
        return any(is_one(part.strip() if isinstance(part, str) else part) for part in parts)

    return has


def _found_by(wanted: Scalar | list[Scalar]) -> Test:
    pattern = re.compile(str(wanted))
    return lambda value: isinstance(value, str) and pattern.search(value) is not None


_WAYS: Final[Mapping[str, Callable[[Scalar | list[Scalar]], Test]]] = {
    "has": _has,
    "not": _is_none_of,
    "matches": _found_by,
}


def _is_pattern(wanted: object) -> bool:
    try:
        re.compile(wanted if isinstance(wanted, str) else "(")
    except re.error:
        return False
    return True


def _comparison(wanted: Scalar) -> Test | None:
    match = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
    if match is None:
        return None
    compare, bound = _COMPARE[match[1]], float(match[2])

    def holds(value: Any) -> bool:
        number = _number(value)
        return number is not None and compare(number, bound)

    return holds


def _plain(value: Any) -> Any:
    """Return a value such that those which mean the same are equal: ``"499"`` is 499."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_empty(value):
        return None
    number = _number(value)
    if number is not None:
        return number
    return value if isinstance(value, str) else repr(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number - number == 0 else None
