"""Running totals of a list that shows only what they are by now: a live ledger."""

from pathlib import Path
from typing import Any

import pytest
from live_lists import Settings, answer, in_turn, watching
from pages import Pages, Reply, serving
from stack_file import ZERO, assert_reads, read, rejections, task

SCOPE = 3600 + 300 + 60
"""Seconds after which nothing is asked about a row: horizon, baseline and delta window."""


def ledger(pages: Pages, **settings: Any) -> Settings:
    """Return the settings of a list of tasks with the tokens that each has so far."""
    store = {"type": "http_json", "url": pages.url("/tasks"), "timeout": "400ms"}
    meaning = {"shape": "cumulative", "columns": {"task_id": "id", "tokens": "decoded"}}
    return {**store, **meaning, **settings}


def totals(**tokens: object) -> Reply:
    """Return the list."""
    return answer([{"id": name, "decoded": total} for name, total in tokens.items()])


def test_what_a_total_grows_by_is_charged_at_the_reading_that_sees_it(tmp_path: Path) -> None:
    """What it was when the watch began is no orphan charge: nobody knows when that was."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", submitted_at=-60, cancelled_at=3), task("h"))
        for offset, list_now, reads in (
            (10, totals(x=500, h=20), {"orphan_token_delta": 0, "orphan_tokens_total": 0}),
            (15, totals(x=600, h=220), {"orphan_token_delta": 100, "orphan_tokens_total": 100}),
            (20, totals(x=700), {"orphan_token_delta": 200, "orphan_tokens_total": 200}),
            (25, totals(), {"orphan_token_delta": 200, "orphan_tokens_total": 200}),
            (76, totals(), {"orphan_token_delta": 100, "orphan_tokens_total": 200}),
            (90, totals(), {"orphan_token_delta": 0, "orphan_tokens_total": 200}),
        ):
            pages.replies["/tasks"] = list_now
            document = watch.look(offset)
            assert_reads(document, reads, f"at +{offset}")
        assert [orphan["orphan_tokens"] for orphan in document["orphans"]] == [200]


def test_a_task_that_comes_later_is_charged_in_full(tmp_path: Path) -> None:
    """The reading before did not see it, so all of its tokens are new."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        pages.replies["/tasks"] = totals()
        watch.look(10)
        pages.replies["/tasks"] = totals(x=40)
        assert read(watch.look(15), "orphan_token_delta") == 40


def test_the_first_reading_looks_twice(tmp_path: Path) -> None:
    """So even a single one, as of ``snapshot``, sees that an orphan is decoding."""
    looks = in_turn([{"id": "x", "decoded": 500}], [{"id": "x", "decoded": 540}])
    with (
        serving({"/tasks": looks}) as pages,
        watching(tmp_path, ledger=ledger(pages)) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=3))
        assert read(watch.look(10), "orphan_token_delta") == 40
        assert len(pages.asked) == 2


def test_spend_is_known_once_its_windows_have_been_watched(tmp_path: Path) -> None:
    """Before that it is absent: less than all of it would look like spend that rises."""
    spend, baseline = "orphan_spend_tokens_per_second", "orphan_spend_baseline_tokens_per_second"
    rising = "orphan_spend_rising"
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("h", submitted_at=-600))
        seen = {}
        for offset in range(0, 421, 30):
            pages.replies["/tasks"] = totals(h=1000 + 10 * offset)
            seen[offset] = watch.look(offset)
        for offset, reads in (
            (0, {spend: None, baseline: None, rising: None}),
            (30, {spend: None, baseline: None, rising: None}),
            (60, {spend: 10, baseline: None, rising: None}),
            (330, {spend: 10, baseline: None, rising: None}),
            (360, {spend: 10, baseline: 10, rising: 0}),
        ):
            assert_reads(seen[offset], reads, f"at +{offset}")


def test_after_a_long_break_the_watch_begins_anew(tmp_path: Path) -> None:
    """What has grown meanwhile is charged when it is seen; spend is unknown for a window."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset, list_now in ((10, totals(x=500)), (40, totals(x=600)), (75, totals(x=700))):
            pages.replies["/tasks"] = list_now
            document = watch.look(offset)
        assert read(document, "orphan_spend_tokens_per_second") == 200 / 60
        pages.replies["/tasks"] = Reply(status=503)
        blind = watch.look(80)
        pages.replies["/tasks"] = totals(x=1700)
        document = watch.look(200)
    unknown = {"orphan_token_delta": None, "orphan_spend_tokens_per_second": None}
    assert_reads(blind, unknown)
    assert_reads(document, {"orphan_token_delta": 1000, "orphan_spend_tokens_per_second": None})


@pytest.mark.parametrize(
    ("gap", "delta"),
    [
        pytest.param(60, 900, id="within a window it is new, and charged"),
        pytest.param(61, 0, id="after a break nobody knows when it began"),
    ],
)
def test_a_task_that_is_new_after_a_break_is_of_unknown_age(
    gap: int, delta: float, tmp_path: Path
) -> None:
    """What it has spent by then may all have been spent while its client waited."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        pages.replies["/tasks"] = totals(h=5)
        watch.look(10)
        watch.tables.add("tasks", task("x", submitted_at=11, cancelled_at=12))
        pages.replies["/tasks"] = totals(h=5, x=900)
        assert read(watch.look(10 + gap), "orphan_token_delta") == delta
        pages.replies["/tasks"] = totals(h=5, x=940)
        assert read(watch.look(15 + gap), "orphan_token_delta") == delta + 40


def test_a_total_that_stands_still_is_no_charge(tmp_path: Path) -> None:
    """However often it is read, and however long: then it goes on where it was."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        late = SCOPE + 100
        for offset, total, delta in (
            (10, 500, 0),
            (15, 510, 10),
            (20, 510, 10),
            (120, 510, 0),
            (late, 510, 0),
            (late + 61, 510, 0),
            (late + 130, 530, 20),
        ):
            pages.replies["/tasks"] = totals(x=total)
            assert read(watch.look(offset), "orphan_token_delta") == delta, offset


def test_what_the_watch_began_with_is_never_charged(tmp_path: Path) -> None:
    """Not even where the total stood still until all about the task was forgotten."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        pages.replies["/tasks"] = totals(x=500)
        for offset in (10, 71, SCOPE + 100, SCOPE + 170):
            watch.look(offset)
        pages.replies["/tasks"] = totals(x=504)
        assert read(watch.look(SCOPE + 175), "orphan_token_delta") == 4


def test_a_total_that_falls_is_counted_and_charges_nothing(tmp_path: Path) -> None:
    """Never negative; what it grows by counts again once it is past where it was."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset, total, delta, falls in (
            (10, 500, 0, 0),
            (15, 600, 100, 0),
            (20, 550, 100, 1),
            (25, 550, 100, 1),
            (30, 640, 140, 1),
        ):
            pages.replies["/tasks"] = totals(x=total)
            document = watch.look(offset)
            assert read(document, "orphan_token_delta") == delta, offset
            assert rejections(document).get("ledger regression", 0) == falls, offset


def test_an_id_that_comes_back_after_all_was_forgotten_is_a_new_task(tmp_path: Path) -> None:
    """Counters of a server begin again with it: an hour later nothing is left to confuse."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=SCOPE))
        for offset, list_now in ((10, totals(x=500)), (15, totals(x=600)), (20, totals())):
            pages.replies["/tasks"] = list_now
            watch.look(offset)
        watch.look(SCOPE + 90)
        pages.replies["/tasks"] = totals(x=40)
        document = watch.look(SCOPE + 95)
        assert read(document, "orphan_token_delta") == 40
        assert rejections(document) == {}


def test_a_total_is_no_entry_that_stands_once(tmp_path: Path) -> None:
    """A list that has ids of entries too repeats them at each reading, with more tokens."""
    columns = {"task_id": "id", "tokens": "decoded", "entry_id": "id"}
    with serving() as pages, watching(tmp_path, ledger=ledger(pages, columns=columns)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset, total in ((10, 500), (15, 540), (20, 580)):
            pages.replies["/tasks"] = totals(x=total)
            document = watch.look(offset)
        assert read(document, "orphan_token_delta") == 80
        assert rejections(document) == {}


@pytest.mark.parametrize("unknown", [{"id": "x"}, {"id": "x", "decoded": None}])
def test_a_total_that_is_not_said_is_unknown(unknown: dict[str, Any], tmp_path: Path) -> None:
    """It adds nothing and is counted once; what the total is at last is of no known time."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        known = [{"id": "h", "decoded": 1}]
        for offset, record, delta in (
            (10, unknown, 0),
            (15, unknown, 0),
            (20, {"id": "x", "decoded": 70}, 0),
            (25, {"id": "x", "decoded": 75}, 5),
            (30, unknown, 5),
            (35, {"id": "x", "decoded": 80}, 10),
        ):
            pages.replies["/tasks"] = answer([*known, record])
            document = watch.look(offset)
            assert read(document, "orphan_token_delta") == delta, offset
        assert rejections(document) == {"ledger unknown_tokens": 2}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        pytest.param({"decoded": 7}, "invalid_record", id="a total of nobody"),
        pytest.param({"id": "", "decoded": 7}, "invalid_record", id="an empty id"),
        pytest.param({"id": "y", "decoded": "many"}, "invalid_tokens", id="no number"),
        pytest.param({"id": "y", "decoded": True}, "invalid_tokens", id="a truth value"),
        pytest.param({"id": "y", "decoded": -1}, "adjustment", id="less than none"),
    ],
)
def test_a_total_that_can_not_be_read_costs_only_itself(
    record: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """It is counted once, and the others grow."""
    with serving() as pages, watching(tmp_path, ledger=ledger(pages)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset, total in ((10, 500), (15, 540), (20, 580)):
            pages.replies["/tasks"] = answer([{"id": "x", "decoded": total}, record])
            document = watch.look(offset)
        assert read(document, "orphan_token_delta") == 80
        assert rejections(document) == {f"ledger {reason}": 1}


@pytest.mark.parametrize("charged", ["charged_at", "ended_at"])
def test_a_list_may_say_itself_when_a_total_was_reached(charged: str, tmp_path: Path) -> None:
    """Then that counts, and the first total still stands before every cutoff."""
    columns = {"task_id": "id", "tokens": "decoded", charged: "at"}
    with serving() as pages, watching(tmp_path, ledger=ledger(pages, columns=columns)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset, total, reached, delta in (
            (10, 500, 8, 0),
            (15, 520, 12, 20),
            (20, 520, 12, 20),
            (73, 530, 70, 10),
        ):
            record = {"id": "x", "decoded": total, "at": ZERO + reached}
            pages.replies["/tasks"] = answer([record])
            assert read(watch.look(offset), "orphan_token_delta") == delta, offset
        pages.replies["/tasks"] = answer([record, {"id": "y", "decoded": 7}])
        assert rejections(watch.look(75)) == {"ledger missing_instant": 1}


def test_a_settled_task_is_no_orphan_where_only_work_that_goes_on_is_let_in(tmp_path: Path) -> None:
    """A total of what has ended would be seen after its end, and look charged after it."""
    rules = {"where": [{"running": True}], "expects": ["running"]}
    with serving() as pages, watching(tmp_path, ledger=ledger(pages, **rules)) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=6), task("h", finished_at=6))
        for offset, is_running, total in ((0, True, 10), (5, True, 210), (10, False, 250)):
            pages.replies["/tasks"] = answer(
                [{"id": name, "running": is_running, "decoded": total} for name in ("x", "h")]
            )
            document = watch.look(offset)
        assert_reads(document, {"orphan_token_delta": 0, "orphan_tokens_total": 0})


def test_a_reading_that_fails_half_way_loses_nothing(tmp_path: Path) -> None:
    """The first look succeeds, the second does not: the next reading goes on from the first."""
    first, later = [{"id": "x", "decoded": 500}], [{"id": "x", "decoded": 540}]
    with (
        serving({"/tasks": in_turn(first, None, later)}) as pages,
        watching(tmp_path, ledger=ledger(pages)) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=3))
        assert read(watch.look(10), "orphan_token_delta") is None
        assert read(watch.look(15), "orphan_token_delta") == 40
