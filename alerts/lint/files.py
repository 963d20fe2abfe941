"""Checks of groups and whole files: sizes, names, duplicates, and what depends on what."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from orphanwatch.alerts.lint.model import Check, Facts, Group, Problem, Rule, RuleFile
from orphanwatch.alerts.lint.tree import selections
from orphanwatch.alerts.naming import LONGEST_NAME
from orphanwatch.exporter.instants import Micros

MOST_RULES: Final = 20


def small_group(group: Group, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A group has at most 20 rules: they are evaluated one after the other."""
    if len(group.rules) > MOST_RULES:
        yield Problem(f"it has {len(group.rules)} rules", "split it into groups of 20 at most")


def group_name(group: Group, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A group has a name, of at most 40 characters."""
    if not group.name:
        yield Problem("it has no name", "give it one")
    elif len(group.name) > LONGEST_NAME:
        yield Problem(f"its name has {len(group.name)} characters", f"write at most {LONGEST_NAME}")


def group_once(file: RuleFile, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A group's name stands once in a file."""
    for name, times in Counter(group.name for group in file.groups).items():
        if times > 1:
            yield Problem(f"the group name `{name}` stands {times} times", "rename one of them")


def told_apart(file: RuleFile, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """No two rules give the same alert or record the same series: one would undo the other."""
    keys = Counter((rule.is_alert, rule.name, _labels(rule)) for rule in file.rules)
    for (is_alert, name, labels), times in keys.items():
        if times > 1:
            what = "alert" if is_alert else "record"
            told = ", ".join(f"{label}={value}" for label, value in labels) or "no labels"
            yield Problem(
                f"{times} rules {what} `{name}` with {told}", "join them by or, or label them apart"
            )


def asked_once(file: RuleFile, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """No two rules ask the same and wait as long for it."""
    first: dict[tuple[str, Micros], str] = {}
    for rule in file.rules:
        if rule.expression.read is None:
            continue
        asked = rule.expression.tree.prettify(), rule.expression.hold
        if asked in first:
            yield Problem(
                f"`{rule.name}` asks what `{first[asked]}` asks", "keep one, or record it"
            )
        first.setdefault(asked, rule.name)


def _labels(rule: Rule) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(rule.labels.items()))


def recorded_before(file: RuleFile, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A recording rule reads what its own group recorded before it: other groups keep no order."""
    recording = [
        (place, number, rule)
        for place, group in enumerate(file.groups)
        for number, rule in enumerate(group.rules)
        if not rule.is_alert
    ]
    homes: dict[str, list[tuple[int, int]]] = {}
    for place, number, rule in recording:
        homes.setdefault(rule.name, []).append((place, number))
    for place, number, rule in recording:
        if rule.expression.read is None:
            continue
        for found in selections(rule.expression.tree):
            # Several rules may record one name, with other labels each.
            origins = homes.get(found.name or "", ())
            if any(home != place or at >= number for home, at in origins):
                yield Problem(
                    f"`{rule.name}` reads `{found.name}`, which is not recorded before it in its "
                    "group",
                    "put both into one group, in order",
                )


def one_first_word(file: RuleFile, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """The alerts of a file share their first word, so that they are found by it."""
    words = Counter(_first_word(rule.name) for rule in file.rules if rule.is_alert)
    if len(words) > 1:
        usual = words.most_common(1)[0][0]
        for rule in file.rules:
            if rule.is_alert and _first_word(rule.name) != usual:
                yield Problem(f"`{rule.name}` does not begin with {usual}, as most do", "rename it")


def _first_word(name: str) -> str:
    tail = next((place for place in range(1, len(name)) if name[place].isupper()), len(name))
    return name[:tail]


GROUP_CHECKS: Final[tuple[Check[Group], ...]] = (
    Check("group/size", small_group),
    Check("group/name", group_name),
)
FILE_CHECKS: Final[tuple[Check[RuleFile], ...]] = (
    Check("group/duplicate", group_once),
    Check("rule/duplicate", told_apart),
    Check("rule/same", asked_once),
    Check("rule/dependency", recorded_before),
    Check("alert/first_word", one_first_word),
)
