"""Field cases D and the shorter ones: what the exporter itself may get wrong. Grace is 5 s."""

import math
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from stack_file import (
    TABLES,
    ZERO,
    Row,
    StackFile,
    Story,
    action,
    assert_reads,
    assert_story,
    charge,
    lease,
    read,
    sample,
    task,
)

from orphanwatch.exporter.exposition import Format, encode
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.snapshot import publish_snapshot
from orphanwatch.exporter.state import CounterBook

GRACE: Row = {"grace_seconds": 5}


class SetClock:
    """A clock that stands where it is set, in seconds after zero."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> Instant:
        """Return the instant it is set to."""
        return instant_of_epoch(ZERO + self.offset)


class Exporter:
    """A running exporter whose refreshes happen when a test says so."""

    def __init__(self, stack: StackFile, started: float) -> None:
        self._clock = SetClock()
        self._clock.offset = started
        config = stack.config
        self._book = CounterBook.open(config.state_file, config, self._clock())
        self._refresher = Refresher(config, self._clock, self._book)

    def page(self, offset: float) -> dict[str, float]:
        """Refresh and return the page: every sample by its whole name."""
        self._clock.offset = offset
        self._refresher.refresh()
        return parse_page(encode(self._refresher.board.current(), Format.TEXT))

    def stop(self) -> None:
        """Stop as a process would."""
        self._refresher.stop()
        self._book.close()


def parse_page(page: bytes) -> dict[str, float]:
    """Return the samples of a page by name and labels, as they are written."""
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def snapshot_page(stack: StackFile, offset: float) -> dict[str, float]:
    """Return the page of one evaluation."""
    return parse_page(encode(publish_snapshot(stack.evaluate(offset), stack.config), Format.TEXT))


def three_orphans(folder: Path, **settings: Any) -> StackFile:
    """Return a stack with three orphans at +30, each with a lease and 10 tokens."""
    stack = StackFile(folder, **GRACE, **settings)
    names = ("x", "y", "z")
    stack.add("tasks", *(task(name, cancelled_at=3) for name in names))
    stack.add("leases", *(lease(name, f"w-{name}", heartbeat_at=30) for name in names))
    stack.add("ledger", *(charge(name, 10, 20) for name in names))
    stack.add("queue", sample(29))
    return stack


def test_a_lost_store_is_absent_and_an_empty_one_is_zero(tmp_path: Path) -> None:
    """D1: blind and calm never look alike, the other arm goes on, and sight comes back."""
    stack = three_orphans(tmp_path)
    exporter = Exporter(stack, started=0)
    delta = "orphan_token_delta pool=overflow"
    total = "orphan_tokens_total basis=charged cause=client_cancel pool=overflow"
    success = "orphan_store_last_success_timestamp_seconds store=ledger"

    seen = exporter.page(30)
    assert (seen[delta], seen[total], seen["orphan_store_up store=ledger"]) == (30, 30, 1)
    stack.run_sql("ALTER TABLE ledger RENAME TO gone")
    for offset in (35, 40, 45):
        blind = exporter.page(offset)
        assert delta not in blind
        assert total not in blind
        assert "orphan_spend_tokens_per_second" not in blind
        assert blind["orphan_store_up store=ledger"] == 0
        assert blind[success] == ZERO + 30
        assert blind["orphan_store_up store=leases"] == 1
        assert blind["orphan_leases cause=client_cancel pool=overflow"] == 3
    stack.run_sql(f"CREATE TABLE ledger ({TABLES['ledger']})")
    empty = exporter.page(50)
    exporter.stop()

    assert (empty[delta], empty["orphan_spend_tokens_per_second"]) == (0, 0)
    # A counter never falls, whatever becomes of its rows.
    assert empty[total] == 30
    assert (empty["orphan_store_up store=ledger"], empty[success]) == (1, ZERO + 50)


@pytest.mark.parametrize("table", ["tasks", "leases", "ledger"])
def test_without_a_store_that_the_arms_need_the_verdict_is_blind(
    table: str, tmp_path: Path
) -> None:
    """D1: a stack without any orphan is blind, never calm, while an arm's store is lost."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", task("x"))
    assert action(stack.document(30)) == "scale"

    stack.run_sql(f"DROP TABLE {table}")

    document = stack.document(30)
    assert action(document) == "blind"
    assert any(f"no such table: {table}" in reason for reason in document["verdict"]["reasons"])
    assert read(document, "orphan_fail_closed condition=blind") == 1
    assert read(document, "orphan_overflow_admission_allowed") == 0


def test_two_scrapes_without_news_are_equal_and_a_restart_carries_on(tmp_path: Path) -> None:
    """D3: a total is not added again on each read, does not start over, and is not replayed."""
    stack = three_orphans(tmp_path, state_file="state.db")
    total = "orphan_tokens_total basis=charged cause=client_cancel pool=overflow"
    first = Exporter(stack, started=0)
    assert [first.page(offset)[total] for offset in (30, 35, 40)] == [30, 30, 30]
    first.stop()

    second = Exporter(stack, started=60)
    assert second.page(60)[total] == 30
    stack.add("ledger", charge("x", 7, 61))
    assert second.page(65)[total] == 37
    second.stop()


def test_a_start_without_state_counts_only_what_is_newer(tmp_path: Path) -> None:
    """D3: never 0 first and history second: what was charged before the start stays uncounted."""
    stack = three_orphans(tmp_path)
    total = "orphan_tokens_total basis=charged cause=client_cancel pool=overflow"
    exporter = Exporter(stack, started=40)

    assert exporter.page(40)[total] == 0
    stack.add("ledger", charge("x", 7, 41))
    assert exporter.page(45)[total] == 7
    exporter.stop()


def test_series_do_not_grow_with_ids_workers_or_junk_pools(tmp_path: Path) -> None:
    """D6: 2,000 ids, 500 workers and 300 junk pools make no series, now or later."""
    (tmp_path / "small").mkdir()
    (tmp_path / "large").mkdir()
    small, large = StackFile(tmp_path / "small", **GRACE), StackFile(tmp_path / "large", **GRACE)
    for stack, count in ((small, 1), (large, 2000)):
        stack.run_sql(
            "CREATE INDEX tasks_task_id ON tasks (task_id)",
            "CREATE INDEX leases_task_id ON leases (task_id)",
            "CREATE INDEX ledger_task_id ON ledger (task_id)",
        )
        numbers = range(count)
        stack.add(
            "tasks",
            *(
                task(f"t{n}", pool=f"junk-{n % 300}", retry_id=f"r{n % 900}", cancelled_at=3)
                for n in numbers
            ),
        )
        stack.add("leases", *(lease(f"t{n}", f"w{n % 500}", heartbeat_at=60) for n in numbers))
        stack.add("ledger", *(charge(f"t{n}", 1, 20) for n in numbers))
        stack.add("queue", sample(29))
    exporter = Exporter(large, started=0)
    pages = [exporter.page(30 + second) for second in range(3)]
    exporter.stop()

    assert {frozenset(page) for page in pages} == {frozenset(pages[0])}
    assert len(snapshot_page(large, 30)) == len(snapshot_page(small, 30))
    assert pages[0]["orphan_token_delta pool=other"] == 2000
    assert not any("junk" in name or "w1" in name or "t1" in name for name in pages[0])


def queue_of(depth: float, cap: float) -> Story:
    """Return D7: 12 of 40 running tasks are past their cutoff and charging, whatever the depth."""
    tasks = [
        task(f"t{n}", submitted_at=-100, cancelled_at=3 if n < 12 else None) for n in range(40)
    ]
    leases = [lease(f"t{n}", f"w{n}", acquired_at=-99, heartbeat_at=30) for n in range(40)]
    return Story(
        settings=GRACE,
        tasks=tuple(tasks),
        leases=tuple(leases),
        ledger=tuple(charge(f"t{n}", 10, 20) for n in range(40)),
        queue=(sample(29, depth=depth, age_seconds=None, in_flight=40, admission_cap=cap),),
        looks={
            30: {
                "orphan_queue_depth": depth,
                "orphan_queue_age_seconds": None,
                "orphan_queue_in_flight": 40,
                "orphan_queue_calm": float(depth <= cap / 2),
                # 28 of the 40 are still waited for.
                "orphan_in_flight_gap": 12 + depth,
                "orphan_leases pool=overflow": 12,
                "orphan_token_delta pool=overflow": 120,
                "action": "shed",
            }
        },
    )


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(queue_of(0, 64), id="D7: an empty queue is no all-clear"),
        pytest.param(queue_of(32, 64), id="D7: a queue at half its cap is calm and no all-clear"),
        pytest.param(queue_of(500, 64), id="D7: a deep queue hides no orphan"),
        pytest.param(
            Story(
                settings=GRACE,
                queue=(sample(29, in_flight=106),),
                looks={
                    30: {
                        "orphan_in_flight_gap": 106,
                        "orphan_leases": 0,
                        "orphan_token_delta": 0,
                        "action": "scale",
                    }
                },
            ),
            id="a gauge that stuck at 106 is a gap, and no orphan without beats or charges",
        ),
        pytest.param(
            Story(
                settings=GRACE,
                queue=(sample(0, depth=7),),
                looks={60: {"orphan_queue_depth": 7}, 61: {"orphan_queue_depth": None}},
            ),
            id="a queue that is sampled no more is absent after a minute, not frozen",
        ),
        pytest.param(
            Story(
                settings=GRACE,
                queue=(sample(0, depth=7), sample(10, depth=0), sample(5, depth=9)),
                looks={30: {"orphan_queue_depth": 0, "orphan_queue_age_seconds": 0}},
            ),
            id="the newest sample counts, and its zero is a zero",
        ),
        pytest.param(
            Story(
                settings={"pools": {"overflow": {"role": "overflow", "lease_cap": 0}}, **GRACE},
                looks={30: {"orphan_lease_cap pool=overflow": 0}},
            ),
            id="a cap of zero is exported",
        ),
    ],
)
def test_the_queue_is_context(story: Story, tmp_path: Path) -> None:
    """Depth is never a filter and never an all-clear, and a true zero is exported."""
    assert_story(story, tmp_path)


def test_one_broken_store_costs_only_itself(tmp_path: Path) -> None:
    """D9: the lease store raises, and ledger and queue are as before; then all raise."""
    stack = three_orphans(tmp_path)
    whole = snapshot_page(stack, 30)
    stack.run_sql("ALTER TABLE leases RENAME TO gone")
    partly = snapshot_page(stack, 30)

    assert partly["orphan_store_up store=leases"] == 0
    assert not any(name.startswith("orphan_leases ") for name in partly)
    for name in (
        "orphan_token_delta pool=overflow",
        "orphan_spend_tokens_per_second",
        "orphan_queue_depth",
        "orphan_attached_tasks",
        "orphan_store_up store=ledger",
    ):
        assert partly[name] == whole[name]
    stack.database.unlink()
    nothing = snapshot_page(stack, 30)
    assert [
        nothing[f"orphan_store_up store={store}"]
        for store in ("gateway", "leases", "ledger", "queue")
    ] == [0, 0, 0, 0]
    assert "orphan_grace_seconds pool=overflow source=proposal" in nothing
    assert "orphan_token_delta pool=overflow" not in nothing


@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_an_empty_stack_has_every_label_set_at_zero_and_no_nan(shape: str, tmp_path: Path) -> None:
    """D2: what the product owns exists at 0 from the first page, and 0 / 0 is nowhere on it."""
    stack = StackFile(tmp_path, stores={"ledger": {"shape": shape}}, **GRACE)
    page = snapshot_page(stack, 30)
    pools = ("paid", "overflow", "other")
    causes = (
        "client_cancel",
        "deadline",
        "sibling_completed",
        "started_after_stop",
        "after_finish",
    )

    assert not any(math.isnan(value) for value in page.values())
    owned = [
        *(f"orphan_token_delta pool={pool}" for pool in pools),
        *(
            f"orphan_tokens_total basis={basis} cause={cause} pool={pool}"
            for pool in pools
            for cause in causes
            for basis in ("charged", "prorated")
        ),
        *(f"orphan_straddling_tokens_total pool={pool}" for pool in pools),
        *(f"orphan_leases cause={cause} pool={pool}" for pool in pools for cause in causes),
        *(f"orphan_leases_confirmed pool={pool}" for pool in pools),
        *(f"orphan_lease_oldest_seconds pool={pool}" for pool in pools),
        *(f"orphan_cancel_propagation_seconds_count pool={pool}" for pool in pools),
        *(f"orphan_duplicate_in_flight pool={pool}" for pool in pools),
        *(f"orphan_retries_without_retry_id pool={pool}" for pool in pools),
        *(f"orphan_unmatched_tokens key={key}" for key in ("worker", "empty", "unknown")),
        "orphan_fail_closed condition=orphan_tokens pool=overflow",
        "orphan_rows_rejected_total reason=unknown_tokens store=ledger",
    ]
    assert {name: page.get(name) for name in owned} == dict.fromkeys(owned, 0.0)
    absent = ("orphan_lease_age_seconds_max", "orphan_deadline_slack_seconds_min")
    assert not any(name.startswith(absent) for name in page)


def test_a_pool_whose_work_is_gone_reads_zero(tmp_path: Path) -> None:
    """A row disappears and its value does not stay: a configured pool returns to 0."""
    stack = three_orphans(tmp_path)
    assert_reads(stack.document(30), {"orphan_leases": 3, "orphan_live_leases": 3})

    stack.run_sql("DELETE FROM leases")

    assert_reads(stack.document(30), {"orphan_leases": 0, "orphan_live_leases": 0})


def test_late_rows_reach_the_running_counter(tmp_path: Path) -> None:
    """C6: rows charged long ago that land now are counted once, whatever the newest row was."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", task("x", cancelled_at=3))
    stack.add("ledger", charge("x", 1, 60))
    total = "orphan_tokens_total basis=charged cause=client_cancel pool=overflow"
    exporter = Exporter(stack, started=0)

    assert exporter.page(65)[total] == 1
    stack.add("ledger", charge("x", 20, 12), charge("x", 30, 20), charge("x", 1000, 2))
    assert [exporter.page(offset)[total] for offset in (75, 80)] == [51, 51]
    exporter.stop()


def test_the_largest_heartbeat_gap_seen_is_remembered(tmp_path: Path) -> None:
    """B4: after gaps of 3, 9 and 3 s the period is 9 s, though the lease is fresh again."""
    stack = StackFile(tmp_path, stores={"leases": {"lease_ttl": "10s"}}, **GRACE)
    stack.add("tasks", task("x"))
    stack.add("leases", lease("x", heartbeat_at=0))
    exporter = Exporter(stack, started=0)
    period = "orphan_heartbeat_period_seconds pool=overflow"
    seen = []
    for looked_at, beat in ((3, 3), (12, 12), (15, 15)):
        seen.append(exporter.page(looked_at)[period])
        stack.beat(beat)
    seen.append(exporter.page(15)[period])
    exporter.stop()

    assert seen == [3, 9, 9, 9]
