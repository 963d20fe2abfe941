"""What other systems answer over HTTP, as each of the four stores: documents after their APIs."""

from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from live_lists import Settings, answer, watching, write_config
from pages import Pages, serving
from stack_file import ZERO, StackFile, assert_reads, read, rejections, task

PLACE: Settings = {"type": "http_json", "timeout": "1s"}


def lease_object(name: str, holder: str | None, acquired: str, renewed: str) -> dict[str, Any]:
    """Return a Lease as the API server of Kubernetes has it (coordination.k8s.io/v1)."""
    held = {"acquireTime": f"2027-01-15T{acquired}Z", "renewTime": f"2027-01-15T{renewed}Z"}
    return {
        "metadata": {
            "name": name,
            "namespace": "inference",
            "labels": {"orphanwatch.io/task": name.removeprefix("task-"), "pool": "overflow"},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "leaseTransitions": 1,
            **(held if holder else {}),
        },
    }


KUBERNETES: Settings = {
    "list_path": "items",
    "where": [{"spec.holderIdentity": {"not": ""}}],
    "columns": {
        "task_id": "metadata.labels.orphanwatch.io/task",
        "worker_id": "spec.holderIdentity",
        "pool": "metadata.labels.pool",
        "acquired_at": "spec.acquireTime",
        "heartbeat_at": "spec.renewTime",
    },
    "lease_ttl": "15s",
}


def test_leases_of_kubernetes(tmp_path: Path) -> None:
    """Acquisition and renewal are its own; a Lease that nobody holds is none."""
    items = [
        lease_object("task-x", "worker-7", "08:00:01.000000", "08:00:28.250000"),
        lease_object("task-h", "worker-8", "08:00:02.000000", "08:00:27.000000"),
        lease_object("task-crashed", "worker-9", "08:00:02.000000", "08:00:10.000000"),
        lease_object("task-free", None, "", ""),
    ]
    listed = {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": items}
    with serving({"/leases": answer(listed)}) as pages:
        store = {**PLACE, **KUBERNETES, "url": pages.url("/leases")}
        with watching(tmp_path, leases=store) as watch:
            watch.tables.add("tasks", task("x", cancelled_at=5), task("h"), task("crashed"))
            document = watch.look(30)
    assert_reads(
        document,
        {
            "orphan_live_leases pool=overflow": 2,
            "orphan_expired_leases": 1,
            "orphan_leases cause=client_cancel": 1,
            "orphan_leases_confirmed": 1,
            "orphan_lease_age_seconds_max": 3,
            "orphan_join_leases task=with": 3,
        },
    )
    assert [orphan["worker_id"] for orphan in document["orphans"]] == ["worker-7"]


def backlog(pages: Pages, **settings: Any) -> Settings:
    """Return the settings of LiteLLM's ``/health/backlog`` as a queue."""
    store = {**PLACE, "url": pages.url("/health/backlog")}
    return {**store, "columns": {"in_flight": "in_flight_requests"}, **settings}


def test_the_backlog_of_litellm(tmp_path: Path) -> None:
    """One object is one sample, taken as it is read: fresh at each refresh."""
    with (
        serving({"/health/backlog": answer({"in_flight_requests": 3})}) as pages,
        watching(tmp_path, queue=backlog(pages)) as watch,
    ):
        for offset in (30, 3630):
            assert_reads(
                watch.look(offset), {"orphan_queue_in_flight": 3, "orphan_queue_depth": None}
            )


def test_the_backlog_in_the_whole_program(tmp_path: Path) -> None:
    """``snapshot`` shows it, and ``check`` says what it lacks."""
    StackFile(tmp_path)
    with serving({"/health/backlog": answer({"in_flight_requests": 3})}) as pages:
        write_config(tmp_path, queue=backlog(pages))
        shown = run(tmp_path, "snapshot", "--config.file", "orphanwatch.yml").out
        told = run(tmp_path, "check", "--config.file", "orphanwatch.yml").out
    assert "orphan_queue_in_flight 3" in shown
    assert "ok     stores.queue: read as of" in told
    assert "stores.queue.columns: depth is not stated: calm, gap and the split signal" in told
    assert "in_flight is not stated" not in told


SAMPLES = [
    pytest.param({"waiting": "4", "running": 2.0}, 4, id="numbers may be texts"),
    pytest.param({"waiting": None, "running": 2}, None, id="null is unknown"),
    pytest.param({"running": 2}, None, id="absent is unknown"),
    pytest.param({"waiting": 0, "running": 2}, 0, id="zero is zero"),
]


@pytest.mark.parametrize(("document", "depth"), SAMPLES)
def test_a_sample_has_three_values(
    document: dict[str, Any], depth: float | None, tmp_path: Path
) -> None:
    """Zero, a number, unknown."""
    columns = {"depth": "waiting", "in_flight": "running"}
    with (
        serving({"/health/backlog": answer(document)}) as pages,
        watching(tmp_path, queue=backlog(pages, columns=columns)) as watch,
    ):
        reads = {"orphan_queue_depth": depth, "orphan_queue_in_flight": 2}
        assert_reads(watch.look(30), reads)


@pytest.mark.parametrize(("age", "depth"), [(59, 4), (61, None)])
def test_a_sample_that_says_when_it_was_taken(
    age: int, depth: float | None, tmp_path: Path
) -> None:
    """Its own instant counts: one older than a minute says nothing of now."""
    columns = {"depth": "waiting", "sampled_at": "at"}
    document = {"waiting": 4, "at": (ZERO + 100 - age) * 1000}
    with (
        serving({"/health/backlog": answer(document)}) as pages,
        watching(tmp_path, queue=backlog(pages, columns=columns)) as watch,
    ):
        assert read(watch.look(100), "orphan_queue_depth") == depth


def run_of(name: str, status: str, **stamps: str) -> dict[str, Any]:
    """Return a run as a job server might list it."""
    return {"run": {"id": f"run-{name}"}, "status": status, **stamps}


def test_a_gateway_that_lists_its_requests(tmp_path: Path) -> None:
    """Each with its ends: what stands under a cancel is a cancel, and what runs is attached."""
    runs = [
        run_of("x", "CANCELED", startTime="2027-01-15T08:00:00Z", closeTime="2027-01-15T08:00:03Z"),
        run_of("h", "RUNNING", startTime="2027-01-15T08:00:00Z"),
        run_of(
            "d", "COMPLETED", startTime="2027-01-15T08:00:00Z", closeTime="2027-01-15T08:00:09Z"
        ),
        run_of("b", "FAILED", startTime="soon", closeTime="2027-01-15T08:00:09Z"),
    ]
    gateway: Settings = {
        **PLACE,
        "list_path": "executions",
        "strip_prefix": "run-",
        "columns": {"task_id": "run.id", "started_at": "startTime", "ended_at": "closeTime"},
        "cancelled_when": [{"status": "CANCELED"}],
        "failed_when": [{"status": ["FAILED", "TIMED_OUT"]}],
    }
    leases = {
        "type": "sql", "url": "sqlite:///stack.db", "relation": "leases"
    }  # fmt: skip
    with serving({"/runs": answer({"executions": runs})}) as pages:
        gateway["url"] = pages.url("/runs")
        with watching(tmp_path, gateway=gateway, leases=leases) as watch:
            for name in ("x", "h", "d"):
                row = {"task_id": name, "worker_id": "w", "acquired_at": 1, "heartbeat_at": 19}
                watch.tables.add("leases", row)
            document = watch.look(20)
            assert_reads(
                document,
                {
                    "orphan_abandoned_tasks cause=client_cancel": 1,
                    "orphan_leases cause=client_cancel": 1,
                    "orphan_leaked_leases": 1,
                    "orphan_join_leases task=with": 3,
                },
            )
            assert rejections(document) == {"gateway invalid_instant": 1}
            pages.replies["/runs"] = answer({"executions": []})
            assert read(watch.look(25), "orphan_join_leases task=without") == 3


def test_charges_that_a_database_tells_over_http(tmp_path: Path) -> None:
    """ClickHouse answers a query with ``FORMAT JSON`` by objects under ``data``: rows that add."""
    rows = [
        {"request": "x", "tokens": "30", "at": "2027-01-15 08:00:20.500"},
        {"request": "h", "tokens": 12, "at": "2027-01-15 08:00:25.000"},
        {"request": "h", "tokens": 12, "at": None},
    ]
    ledger: Settings = {
        **PLACE,
        "list_path": "data",
        "shape": "increments",
        "columns": {"task_id": "request", "tokens": "tokens", "charged_at": "at"},
    }
    with serving({"/": answer({"meta": [], "data": rows, "rows": 3})}) as pages:
        ledger["url"] = pages.url("/?query=SELECT%201%20FORMAT%20JSON")
        with watching(tmp_path, ledger=ledger) as watch:
            watch.tables.add("tasks", task("x", cancelled_at=3), task("h"))
            for offset in (30, 35):
                document = watch.look(offset)
                assert_reads(
                    document,
                    {"orphan_token_delta": 30, "orphan_spend_tokens_per_second": 42 / 60},
                )
            assert rejections(document) == {"ledger missing_instant": 1}
    assert [path for path, _ in pages.asked] == ["/?query=SELECT%201%20FORMAT%20JSON"] * 2


def test_the_clock_of_a_server_whose_stamps_count_is_compared(tmp_path: Path) -> None:
    """Only then: of a list that is stamped as it is read, nobody else's clock matters."""
    date = {"Date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    records = {"since": [{"job": "x", "since": ZERO}], "none": [{"job": "x"}]}
    with serving({f"/{name}": answer(list_, **date) for name, list_ in records.items()}) as pages:
        skews = {}
        for name in records:
            folder = tmp_path / name
            folder.mkdir()
            columns = {"task_id": "job", **({"acquired_at": "since"} if name == "since" else {})}
            store = {**PLACE, "url": pages.url(f"/{name}"), "columns": columns}
            with watching(folder, leases=store) as watch:
                document = watch.look(0)
                skews[name] = read(document, "orphan_store_clock_skew_seconds store=leases")
    assert skews["none"] is None
    assert skews["since"] is not None
