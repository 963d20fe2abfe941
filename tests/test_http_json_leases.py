"""Leases of a list that tells only of now: what the readings know of them."""

from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from live_lists import Settings, answer, watching, write_config
from pages import Pages, serving
from stack_file import ZERO, StackFile, assert_reads, read, task

LEDGER: Settings = {
    "type": "sql",
    "url": "sqlite:///stack.db",
    "relation": "ledger",
    "shape": "increments",
}


def leases(pages: Pages, **settings: Any) -> Settings:
    """Return the settings of a list of jobs that are worked at, with no stamp at all."""
    store = {"type": "http_json", "url": pages.url("/jobs"), "timeout": "1s"}
    rules = {"columns": {"task_id": "job"}, "alive_when": [{"busy": True}]}
    return {**store, **rules, **settings}


def job(name: str, *, busy: bool = True, **fields: Any) -> dict[str, Any]:
    """Return a job as the list has it."""
    return {"job": name, "busy": busy, **fields}


def test_a_lease_is_held_from_its_first_sight_to_the_reading_that_misses_it(tmp_path: Path) -> None:
    """So a cancel's propagation is measured, at most two refreshes too long."""
    with serving() as pages, watching(tmp_path, leases=leases(pages), ledger=LEDGER) as watch:
        watch.tables.add("tasks", task("x", cancelled_at=7))
        for offset, jobs, reads in (
            (0, [], {"orphan_live_leases": 0}),
            (5, [job("x")], {"orphan_live_leases": 1, "orphan_leases": 0}),
            (
                10,
                [job("x")],
                {
                    "orphan_leases cause=client_cancel": 1,
                    "orphan_leases_confirmed": 1,
                    "orphan_lease_age_seconds_max": 0,
                    "orphan_cancel_propagation_open": 1,
                },
            ),
            (15, [], {"orphan_leases": 0, "orphan_cancel_propagation_open": 0}),
            (
                80,
                [],
                {
                    "orphan_cancel_propagation_seconds_count": 1,
                    "orphan_cancel_propagation_seconds_sum": 15 - 7,
                },
            ),
        ):
            pages.replies["/jobs"] = answer(jobs)
            assert_reads(watch.look(offset), reads, f"at +{offset}")


def test_what_the_first_reading_sees_was_there_before(tmp_path: Path) -> None:
    """Since when is unknown: a cancel before that is no reason to say that work began after it."""
    with (
        serving({"/jobs": answer([job("x")])}) as pages,
        watching(tmp_path, leases=leases(pages)) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset in (10, 15):
            document = watch.look(offset)
            assert read(document, "orphan_leases cause=client_cancel") == 1
            assert read(document, "orphan_leases cause=started_after_stop") == 0


def test_work_that_begins_after_a_stop_is_told(tmp_path: Path) -> None:
    """The reading before did not see it, and the cancel was earlier."""
    with (
        serving({"/jobs": answer([])}) as pages,
        watching(tmp_path, leases=leases(pages)) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=3))
        watch.look(10)
        pages.replies["/jobs"] = answer([job("x")])
        assert read(watch.look(15), "orphan_leases cause=started_after_stop") == 1


def test_after_a_long_break_nobody_knows_when_work_began(tmp_path: Path) -> None:
    """What a reading finds then is as if it were the first."""
    with (
        serving({"/jobs": answer([])}) as pages,
        watching(tmp_path, leases=leases(pages)) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=50))
        watch.look(0)
        pages.replies["/jobs"] = answer([job("x")])
        assert read(watch.look(61), "orphan_leases cause=client_cancel") == 1


def test_a_lease_beats_as_long_as_its_worker_is_at_work(tmp_path: Path) -> None:
    """Listed, but not at work any more: its age grows until it has expired."""
    with (
        serving({"/jobs": answer([job("x")])}) as pages,
        watching(tmp_path, leases=leases(pages, lease_ttl="20s")) as watch,
    ):
        watch.tables.add("tasks", task("x"))
        assert read(watch.look(0), "orphan_lease_age_seconds_max") == 0
        pages.replies["/jobs"] = answer([job("x", busy=False)])
        assert read(watch.look(15), "orphan_lease_age_seconds_max") == 15
        assert_reads(watch.look(25), {"orphan_live_leases": 0, "orphan_expired_leases": 1})


def test_a_list_without_any_sign_of_life_holds_its_leases_until_they_vanish(tmp_path: Path) -> None:
    """Being listed is no heartbeat: an orphan among them is not confirmed."""
    with (
        serving({"/jobs": answer([job("x")])}) as pages,
        watching(tmp_path, leases=leases(pages, alive_when=[])) as watch,
    ):
        watch.tables.add("tasks", task("x", cancelled_at=3))
        for offset in (2, 60, 120):
            assert read(watch.look(offset), "orphan_live_leases") == 1
        held = {"orphan_leases cause=client_cancel": 1, "orphan_leases_confirmed": 0}
        assert_reads(watch.look(180), held)
        pages.replies["/jobs"] = answer([])
        assert_reads(watch.look(185), {"orphan_live_leases": 0, "orphan_leases": 0})


STATED = {"columns": {"task_id": "job", "acquired_at": "since", "heartbeat_at": "seen"}}


def test_what_a_record_states_goes_before_what_the_readings_know(tmp_path: Path) -> None:
    """Its own stamps count; a heartbeat that it lacks is the reading's."""
    jobs = [job("x", since=ZERO - 50, seen=ZERO - 8), job("y", since=ZERO - 50)]
    with (
        serving({"/jobs": answer(jobs)}) as pages,
        watching(tmp_path, leases=leases(pages, **STATED)) as watch,
    ):
        assert read(watch.look(0), "orphan_lease_age_seconds_max") == 8


def test_a_record_that_says_that_it_is_not_held_is_no_lease(tmp_path: Path) -> None:
    """Where the list has a place for the acquisition, an empty one is an answer."""
    jobs = [job("x", since=None, seen=None, busy=False), job("y", since=ZERO)]
    with (
        serving({"/jobs": answer(jobs)}) as pages,
        watching(tmp_path, leases=leases(pages, **STATED)) as watch,
    ):
        watch.look(0)
        assert read(watch.look(5), "orphan_live_leases") == 1


@pytest.mark.parametrize("offset", [-3600, 3600])
def test_a_list_of_now_knows_nothing_of_another_time(offset: float, tmp_path: Path) -> None:
    """Unknown is not empty: asked about the past, the store can't be read."""
    StackFile(tmp_path)
    with serving({"/jobs": answer([job("x")])}) as pages:
        write_config(tmp_path, leases=leases(pages))
        command = ("snapshot", "--config.file", "orphanwatch.yml")
        now = run(tmp_path, *command)
        then = run(tmp_path, *command, "--at", str(ZERO + offset))
    assert "orphan_live_leases{" in now.out
    assert "orphan_live_leases{" not in then.out
    assert (
        "store leases can't be read: tells only of now, and is asked about 2027-01-15T"
    ) in then.err
    assert "leave out --at, or map acquired_at and heartbeat_at if its records say" in then.err


@pytest.mark.parametrize("acquired", ["acquired_at", "started_at"])
def test_a_list_that_says_when_it_is_of_can_be_asked_about_the_past(
    acquired: str, tmp_path: Path
) -> None:
    """What comes later had not happened: as for a table."""
    StackFile(tmp_path)
    jobs = [job("x", since=ZERO, seen=ZERO + 10), job("y", since=ZERO + 9, seen=ZERO + 10)]
    with serving({"/jobs": answer(jobs)}) as pages:
        columns = {"task_id": "job", acquired: "since", "heartbeat_at": "seen"}
        write_config(tmp_path, leases=leases(pages, columns=columns, alive_when=[]))
        command = ("snapshot", "--config.file", "orphanwatch.yml", "--at", str(ZERO + 5))
        assert 'orphan_live_leases{pool="other"} 1' in run(tmp_path, *command).out
