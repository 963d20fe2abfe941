"""``drill run`` as it is typed: what it says, what it writes, and how it ends."""

import json
from pathlib import Path

import pytest
from cli_session import run
from drills import write_stack

from orphanwatch.exporter.instants import micros

FAST = ("drill", "run", "--speed", "100")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param((), 0, "shed baseline: shed within grace; promoted", id="the baseline"),
        pytest.param(
            ("--fault", "drop-cancel"), 1, "drop-cancel: orphan decode after cancel", id="a fault"
        ),
        pytest.param(
            ("--mode", "orphan"), 1, "orphan baseline: orphan decode after cancel", id="a mode"
        ),
        pytest.param(
            ("--fault", "drop-cancel", "--mode", "shed"),
            1,
            "drop-cancel: cancel missed",
            id="a fault where sheds were expected",
        ),
    ],
)
def test_exit_code_0_says_promoted_and_nothing_else_does(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Without a config, on a store of the drill's own; nothing but words is left."""
    told = run(tmp_path, *FAST, *arguments)
    assert told.code == code
    assert said in told.out
    assert "no lease of it is open" in told.out
    assert told.err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("--fault", "drop-cancel", "--fault", "lost-retry-id"),
            "two faults at once hide the hop",
            id="two faults",
        ),
        pytest.param(("--all", "--mode", "shed"), "leave --fault and --mode out", id="all and one"),
        pytest.param(("--fault", "gremlins"), "drop-cancel", id="a fault that there is none of"),
        pytest.param(
            ("--fault", "slow-heartbeat", "--tasks", "6"),
            "set knob tasks to 7 or more",
            id="too few deadlines to see a slow heartbeat by",
        ),
        pytest.param(("--speed", "0.9"), "0.9 is not in the range 1<=x<=100", id="a clock ahead"),
        pytest.param(("--dry-run",), "--dry-run only goes with --target", id="a target's option"),
        pytest.param(
            ("--report", "nowhere/drill.json"), "choose another --report", id="no such folder"
        ),
    ],
)
def test_what_is_refused_says_what_to_do_instead(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """In a sentence, with exit code 2."""
    told = run(tmp_path, *FAST, *arguments)
    assert told.code == 2
    assert said in told.err
    assert "Traceback" not in told.err


def test_all_drills_end_with_the_promotion_table_and_a_list_of_reports(tmp_path: Path) -> None:
    """The baseline first, then each fault; only the baseline is promoted."""
    told = run(tmp_path, *FAST, "--all", "--report", "drills.json")
    reports = json.loads((tmp_path / "drills.json").read_text())
    faults = ["drop-cancel", "slow-heartbeat", "lost-retry-id", "miskeyed-ledger", "second-decoder"]
    assert told.code == 1
    assert [report["fault"] for report in reports] == [None, *faults]
    assert [report["promoted"] for report in reports] == [True, False, False, False, False, False]
    assert [report["hop"] for report in reports[1:]] == [
        "cancel_channel", "heartbeat", "retry", "ledger", "worker",
    ]  # fmt: skip
    table = told.out[told.out.rindex("promoted\n") :].splitlines()
    assert [line.split()[-1] for line in table[1:7]] == ["yes", "no", "no", "no", "no", "no"]
    assert {
        "mode", "fault", "knobs", "knobs_digest", "tasks", "telemetry", "truth", "promoted",
        "verdict", "hop",
    } <= reports[0].keys()  # fmt: skip


def test_knobs_come_from_a_drill_file_and_show_in_the_report(tmp_path: Path) -> None:
    """Two drills of the same knobs have the same digest, others have another."""
    (tmp_path / "knobs.yml").write_text("cancel_at: 2s\n")
    digests = []
    for arguments in ((), ("--drill.file", "knobs.yml"), ("--drill.file", "knobs.yml")):
        # With the cancel earlier, the slow heartbeat would fit into the slack.
        run(tmp_path, *FAST, *arguments, "--report", "drill.json")
        digests.append(json.loads((tmp_path / "drill.json").read_text())["knobs_digest"])
    assert digests[0] != digests[1] == digests[2]


def test_the_grace_of_a_drill_is_the_configs(tmp_path: Path) -> None:
    """Orphans are told by it; a drill file that says another one is refused."""
    config = write_stack(tmp_path)
    file = tmp_path / "orphanwatch.yml"
    file.write_text(f"grace_seconds: 2s\n{file.read_text()}")
    named = ("--config.file", "orphanwatch.yml")
    told = run(tmp_path, *FAST, *named, "--fault", "drop-cancel", "--report", "drill.json")
    report = json.loads((tmp_path / "drill.json").read_text())
    assert config.grace == micros(1)
    assert report["knobs"]["grace_seconds"] == 2.0
    assert {task["cutoff_s"] for task in report["tasks"]} == {None, 5.5}
    assert report["truth"]["disagreements"] == [], told.out

    (tmp_path / "knobs.yml").write_text("grace_seconds: 1s\n")
    refused = run(tmp_path, *FAST, *named, "--drill.file", "knobs.yml")
    assert refused.code == 2
    assert "leave it out of the drill file" in refused.err
