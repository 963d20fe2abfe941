"""``orphanwatch snapshot``, the real program: both formats, any instant, exit codes."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from cli_session import golden, run, session
from prometheus_client.parser import text_string_to_metric_families
from stack_file import ZERO, StackFile, charge, lease, read, sample, task

AT = f"--at {ZERO + 30}"
JSON = f"snapshot --config.file orphanwatch.yml {AT} --format json"
PAGE = f"snapshot --config.file orphanwatch.yml {AT}"


def stack_of_both_arms(folder: Path) -> StackFile:
    """Return a stack in which one task charges past its cutoff and another only holds a lease."""
    stack = StackFile(folder)
    stack.add(
        "tasks",
        task("charging", cancelled_at=3, retry_id="r1"),
        task("holding", deadline_at=10, pool="paid"),
        task("healthy", deadline_at=90),
        task("fast", cancelled_at=5),
    )
    stack.add(
        "leases",
        lease("charging", "w1", heartbeat_at=28),
        lease("holding", "w2", pool="paid", heartbeat_at=10.5),
        lease("healthy", "w3", heartbeat_at=29),
        lease("fast", "w4", heartbeat_at=5, released_at=5.5),
    )
    stack.add(
        "ledger",
        charge("charging", 40, 2),
        charge("charging", 25, 20),
        charge("healthy", 10, 21),
        charge("healthy", None, 22),
    )
    stack.add("queue", sample(29, depth=1, age_seconds=0.5, in_flight=3))
    return stack


def test_the_metrics_page(tmp_path: Path) -> None:
    """The page parses strictly, and is whole: every family with help and type."""
    stack_of_both_arms(tmp_path)

    told = session(tmp_path, PAGE)

    assert told == golden("snapshot-prometheus.txt", told)
    answer = run(tmp_path, *PAGE.split())
    families = list(text_string_to_metric_families(answer.out))
    assert answer.code == 0
    assert answer.err == ""
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation
        assert family.type in {"gauge", "counter", "histogram"}
        assert not any(math.isnan(one.value) for one in family.samples)
        # The exporter's own labels only: no id can be among them.
        assert {key for one in family.samples for key in one.labels} <= {
            "pool", "cause", "basis", "store", "reason", "key", "source", "condition", "version",
            "ledger", "task",
            "le",
        }  # fmt: skip


def test_the_json_document(tmp_path: Path) -> None:
    """The document is strict JSON in the contract's shape, the worst orphan first."""
    stack_of_both_arms(tmp_path)

    answer = run(tmp_path, *JSON.split())
    document = json.loads(answer.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))

    assert answer.code == 0
    assert {"at", "verdict", "metrics", "orphans"} <= document.keys()
    assert document["at"] == ZERO + 30
    assert document["verdict"].keys() == {"action", "reasons"}
    assert document["verdict"]["action"] == "shed"
    assert all(isinstance(reason, str) for reason in document["verdict"]["reasons"])
    for name, samples in document["metrics"].items():
        assert name.startswith(("orphan_", "orphanwatch_"))
        for one in samples:
            assert one.keys() == {"labels", "value"}
            assert isinstance(one["value"], float)
            assert all(isinstance(label, str) for label in one["labels"].values())
    assert document["orphans"] == [
        {
            "task_id": "charging",
            "retry_id": "r1",
            "pool": "overflow",
            "worker_id": "w1",
            "cause": "client_cancel",
            "abandoned_at": ZERO + 3.0,
            "cutoff_at": ZERO + 4.0,
            "orphan_tokens": 25.0,
            "lease_live": True,
            "seconds_past_cutoff": 26.0,
        },
        {
            "task_id": "holding",
            "retry_id": None,
            "pool": "paid",
            "worker_id": "w2",
            "cause": "deadline",
            "abandoned_at": ZERO + 10.0,
            "cutoff_at": ZERO + 11.0,
            "orphan_tokens": 0.0,
            "lease_live": True,
            "seconds_past_cutoff": 19.0,
        },
    ]


def flat(document: dict[str, Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the metrics of a document by name and labels."""
    return {
        (name, frozenset(one["labels"].items())): one["value"]
        for name, samples in document["metrics"].items()
        for one in samples
        if name != "orphan_store_clock_skew_seconds"
    }


def test_both_formats_say_the_same(tmp_path: Path) -> None:
    """Every sample of the page stands in the JSON under the same name, and no other."""
    stack_of_both_arms(tmp_path)

    document = json.loads(run(tmp_path, *JSON.split()).out)
    page = {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(run(tmp_path, *PAGE.split()).out)
        for one in family.samples
        if one.name != "orphan_store_clock_skew_seconds"
    }

    assert flat(document) == page
    assert read(document, "orphan_cancel_propagation_seconds_sum") == 0.5


@pytest.mark.parametrize(
    "at",
    [
        "1800000030",
        "1800000030000",
        "2027-01-15T08:00:30Z",
        "2027-01-15T10:00:30+02:00",
        "2027-01-15 08:00:30",
    ],
)
def test_the_instant_in_every_form(at: str, tmp_path: Path) -> None:
    """``--at`` takes ISO 8601 and epoch numbers; without a zone it is UTC, whatever the host's."""
    stack_of_both_arms(tmp_path)
    command = ("snapshot", "--config.file", "orphanwatch.yml", "--format", "json", "--at", at)

    answer = run(tmp_path, *command, TZ="Asia/Tokyo")

    assert answer.code == 0
    assert json.loads(answer.out)["at"] == ZERO + 30


def test_without_an_instant_it_is_now(tmp_path: Path) -> None:
    """A stack that lies ahead has not happened yet: it evaluates, and nothing is orphan."""
    stack_of_both_arms(tmp_path)

    answer = run(tmp_path, "snapshot", "--config.file", "orphanwatch.yml", "--format", "json")

    document = json.loads(answer.out)
    assert answer.code == 0
    assert document["at"] < ZERO
    assert document["orphans"] == []


def test_a_blind_snapshot_is_still_one(tmp_path: Path) -> None:
    """It exits 0 whenever it evaluated, the stores unread or not, and says blind."""
    stack_of_both_arms(tmp_path).database.unlink()

    told = session(tmp_path, JSON).replace(str(tmp_path), "/FOLDER")

    assert told == golden("snapshot-blind.txt", told)
    document = json.loads(told.partition("\n")[2].rpartition("exit 0")[0])
    assert document["verdict"]["action"] == "blind"
    assert read(document, "orphan_store_up") == 0
    assert read(document, "orphan_token_delta") is None
    assert document["orphans"] == []


def test_wrong_usage_is_told_with_the_remedy(tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output, and never a traceback."""
    StackFile(tmp_path)
    (tmp_path / "wrong.yml").write_text(
        "stores: {}\ndelta_window: 30s\nspeling: 1\n", encoding="utf-8"
    )
    told = session(
        tmp_path,
        "snapshot",
        "snapshot --config.file nowhere.yml",
        "snapshot --config.file wrong.yml",
        "snapshot --config.file orphanwatch.yml --at soon",
        "snapshot --config.file orphanwatch.yml --at 2027-13-01",
        "snapshot --config.file orphanwatch.yml --format xml",
        "snapshoot",
    )

    assert told == golden("snapshot-usage.txt", told)
    assert "Traceback" not in told
    assert told.count("\nexit 2\n") == 7


@pytest.mark.parametrize("at", ["nan", "", "12:30", "1e300"])
def test_what_is_no_instant_is_refused(at: str, tmp_path: Path) -> None:
    """An instant that is none is wrong usage, never a snapshot of some other time."""
    StackFile(tmp_path)

    answer = run(tmp_path, "snapshot", "--config.file", "orphanwatch.yml", "--at", at)

    assert answer.code == 2
    assert answer.out == ""
    assert "is no instant; write 2026-11-30T02:17:00Z or epoch seconds" in answer.err


@pytest.mark.parametrize("tokens", ["9e999", "1e308"])
@pytest.mark.parametrize("form", ["json", "prometheus"])
def test_tokens_beyond_all_bounds_do_not_cost_the_snapshot(
    form: str, tokens: str, tmp_path: Path
) -> None:
    """A ledger that says infinity, or adds up to it, still has a snapshot without infinity."""
    stack = stack_of_both_arms(tmp_path)
    row = f"INSERT INTO ledger (task_id, tokens, charged_at) VALUES ('charging', {tokens}, {ZERO + 21})"  # noqa: S608, E501  (values of ours; it is one statement)
    stack.run_sql(row, row)

    answer = run(tmp_path, *PAGE.split(), "--format", form)

    assert answer.code == 0
    assert "Traceback" not in answer.err
    values = [line.rpartition(" ")[2] for line in answer.out.splitlines() if line[:1] != "#"]
    assert not {"+Inf", "-Inf", "NaN", "Infinity,", "NaN,"} & set(values)


def test_a_secret_stands_in_no_output(tmp_path: Path) -> None:
    """A url's password is in neither format nor on standard error, however verbose."""
    url = "sqlite:///nowhere.db?password=hunter2"
    StackFile(tmp_path, stores={"ledger": {"url": "${LEDGER_URL}"}})

    for form in ("json", "prometheus"):
        answer = run(
            tmp_path, "--log.level", "debug", *PAGE.split(), "--format", form, LEDGER_URL=url
        )
        assert answer.code == 0
        assert "hunter2" not in answer.out + answer.err
