"""The product against the second opinion, metric by metric, on random stacks in SQLite files."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import second_opinion
import stack_healthy
import stack_strategies
from hypothesis import HealthCheck, given, settings
from second_opinion_rejects import rejected_bounds
from stacks import AT, Stack, write_stack

from orphanwatch.exporter import names
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.names import Family, Kind
from orphanwatch.exporter.snapshot import snapshot_document, take_snapshot

Row = dict[str, Any]
Samples = dict[tuple[tuple[str, str], ...], float]

STEADY = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
BRIEF = settings(STEADY, max_examples=60)

# What depends on the wall clock, the machine or the build, or is judged by bounds below.
ELSEWHERE = (
    names.REFRESH_DURATION_SECONDS,
    names.BUILD_INFO,
    names.STORE_LAST_SUCCESS,
    names.STORE_CLOCK_SKEW,
    names.ROWS_REJECTED_TOTAL,
)
ORPHAN_FIELDS = (
    "task_id",
    "retry_id",
    "pool",
    "cause",
    "abandoned_at",
    "cutoff_at",
    "orphan_tokens",
    "lease_live",
    "seconds_past_cutoff",
)


def product_document(stack: Stack) -> Row:
    """Return what the product says about a stack that is written into a database."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(write_stack(stack, Path(folder)))
        document: Row = snapshot_document(take_snapshot(config, instant_of_epoch(AT)), config)
    return document


def sample_names(family: Family) -> tuple[str, ...]:
    """Return the names of a family's samples."""
    if family.kind is Kind.HISTOGRAM:
        return tuple(f"{family}_{part}" for part in ("bucket", "sum", "count"))
    return (str(family),)


def samples_of(document: Row, name: str) -> Samples:
    """Return a metric's samples by their labels; bucket edges compare as numbers."""
    found: Samples = {}
    for sample in document["metrics"].get(name, []):
        labels = dict(sample["labels"])
        if "le" in labels:
            labels["le"] = str(float(labels["le"]))
        key = tuple(sorted(labels.items()))
        assert key not in found, f"{name} stands twice with {key}"
        found[key] = sample["value"]
    return found


def disagreements(product: Row, opinion: Row) -> list[str]:
    """Return every sample on which the two differ, product first."""
    found: list[str] = []
    for family in names.FAMILIES:
        if family in ELSEWHERE or str(family) in opinion["doubtful"]:
            continue
        for name in sample_names(family):
            mine, theirs = samples_of(product, name), samples_of(opinion, name)
            for labels in sorted(mine.keys() | theirs.keys()):
                pair = mine.get(labels), theirs.get(labels)
                if None in pair or pair[0] != pytest.approx(pair[1], rel=1e-6, abs=1e-9):
                    found.append(f"{name}{dict(labels)}: {pair[0]} is not {pair[1]}")
    return found


def comparable_orphans(document: Row) -> list[Row]:
    """Return the orphans in an order of their own, without what the contract leaves open."""
    orphans = [{field: orphan[field] for field in ORPHAN_FIELDS} for orphan in document["orphans"]]
    return sorted(orphans, key=lambda orphan: [str(value) for value in orphan.values()])


def orphan_disagreements(product: Row, opinion: Row) -> list[str]:
    """Return every orphan on which the two differ."""
    mine, theirs = comparable_orphans(product), comparable_orphans(opinion)
    if len(mine) != len(theirs):
        return [f"orphans: {mine} are not {theirs}"]
    return [
        f"orphan: {one} is not {other}"
        for one, other in zip(mine, theirs, strict=True)
        if any(
            one[field] != other[field]
            if isinstance(other[field], str | bool | None)
            else one[field] != pytest.approx(other[field], rel=1e-6, abs=1e-9)
            for field in ORPHAN_FIELDS
        )
    ]


@STEADY
@given(stack_strategies.stacks())
def test_every_number_agrees(stack: Stack) -> None:
    """Product and second opinion agree on every sample, orphan and verdict, absences included."""
    product = product_document(stack)
    opinion = second_opinion.evaluate(stack.readable(), stack.known_settings(), AT)
    found = disagreements(product, opinion) + orphan_disagreements(product, opinion)
    if "verdict" not in opinion["doubtful"]:
        mine, theirs = product["verdict"]["action"], opinion["verdict"]["action"]
        found += [] if mine == theirs else [f"action: {mine} is not {theirs}"]
    assert not found, "\n".join(found)
    assert product["at"] == AT


@BRIEF
@given(stack_strategies.stacks())
def test_bad_rows_are_counted_once(stack: Stack) -> None:
    """Each bad row that matters is counted, once, by its reason; no other row is."""
    product = product_document(stack)
    bounds = rejected_bounds(stack.readable(), stack.known_settings(), AT)
    for labels, value in samples_of(product, str(names.ROWS_REJECTED_TOTAL)).items():
        least, most = bounds.get((dict(labels)["store"], dict(labels)["reason"]), (0, 0))
        assert least <= value <= most, f"{labels}: {value} is not within {least} and {most}"


@BRIEF
@given(stack_healthy.healthy_stacks())
def test_healthy_stacks_read_zero(stack: Stack) -> None:
    """A stack in which every cancel arrives shows zero, not nothing, and asks for no shedding."""
    product = product_document(stack)
    for family in (
        names.TOKEN_DELTA,
        names.TOKENS_TOTAL,
        names.STRADDLING_TOKENS_TOTAL,
        names.LEASES,
        names.LEASES_CONFIRMED,
        names.LEASE_OLDEST_SECONDS,
        names.LEAKED_LEASES,
        names.DUPLICATE_IN_FLIGHT,
        names.RETRIES_WITHOUT_RETRY_ID,
    ):
        found = samples_of(product, str(family))
        assert found, f"{family} is absent"
        assert not any(found.values()), f"{family}: {found}"
    assert product["orphans"] == []
    assert product["verdict"]["action"] in ("hold", "scale")
    opinion = second_opinion.evaluate(stack.readable(), stack.known_settings(), AT)
    assert not disagreements(product, opinion)
