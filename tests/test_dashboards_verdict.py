"""The verdict that a panel puts together from the metrics is the contract's table."""

import json
from pathlib import Path

import pytest
from artifact_configs import small_config
from panel_answers import EVERYTHING, Window, filled, panels_of
from promql_facts import disagreements, healthy_series

from orphanwatch.dashboards.build import build
from orphanwatch.dashboards.links import Dashboard, Panel
from orphanwatch.exporter import names
from orphanwatch.exporter.names import Family

WINDOW = Window(start=0, end=300, step=15)
Changes = dict[tuple[Family, str], str]
"""What differs from health: the values of a family's series that have a text in their labels."""


VERDICTS: dict[str, tuple[Changes, float]] = {
    "health is scale": ({}, 0),
    "orphan tokens are shed": ({(names.TOKEN_DELTA, ""): "5"}, 3),
    "an orphan lease is shed": ({(names.LEASES, ""): "1"}, 3),
    "a duplicate in flight is shed": ({(names.DUPLICATE_IN_FLIGHT, ""): "1"}, 3),
    "an unreadable store is blind": ({(names.STORE_UP, ""): "0"}, 2),
    "a stale store is blind": ({(names.STORE_LAST_SUCCESS, ""): "0x60"}, 2),
    "an orphan outranks a blind store": (
        {(names.TOKEN_DELTA, ""): "5", (names.STORE_UP, ""): "0"},
        3,
    ),
    "an orphan within the hold is hold": ({(names.TOKEN_DELTA, ""): "5x30 0x30"}, 1),
    "an orphan lease within the hold is hold": ({(names.LEASES, ""): "1x30 0x30"}, 1),
    "a late row within the hold, which only the counter shows, is hold": (
        {(names.TOKENS_TOTAL, "charged"): "5x30 9x30"},
        1,
    ),
    "a late row's prorated share is no sign": ({(names.TOKENS_TOTAL, "prorated"): "5x30 9x30"}, 0),
    "a duplicate leaves no hold": ({(names.DUPLICATE_IN_FLIGHT, ""): "1x30 0x30"}, 0),
    "an orphan before the hold is scale": ({(names.TOKEN_DELTA, ""): "5x15 0x45"}, 0),
    "a fail-closed condition is hold": ({(names.FAIL_CLOSED, "retry_id_missing"): "1"}, 1),
    "a ledger without ids is blind, though it can be read": (
        {(names.FAIL_CLOSED, 'condition="blind"'): "1"},
        2,
    ),
    "a blind store outranks a hold": ({(names.FAIL_CLOSED, ""): "1", (names.STORE_UP, ""): "0"}, 2),
}


@pytest.mark.parametrize(("changes", "value"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(changes: Changes, value: float, tmp_path: Path) -> None:
    """The verdict's panel holds the first row of the contract's table, whatever pool is chosen."""
    board = json.loads(build(small_config())[f"{Dashboard.OVERVIEW}.json"])
    verdict = next(one for one in panels_of(board) if one["id"] == Panel.VERDICT.id)
    (target,) = verdict["targets"]
    expr = filled(target["expr"], WINDOW, {**EVERYTHING, "pool": "paid"})
    one = f'label_replace({expr}, "job", "", "", "")'
    target_labels = [{"job": "orphanwatch", "instance": "a:1"}]
    series = healthy_series(target_labels)
    for (family, text), values in changes.items():
        changed = [name for name in series if name.startswith(f"{family}{{") and text in name]
        assert changed
        series |= dict.fromkeys(changed, values if "x" in values else f"{values}x60")
    assert disagreements(tmp_path, series, {one: value}) == ""
