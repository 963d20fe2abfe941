"""The measurement file: written, read, bound to a config, expired; and who does what about it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from alert_configs import alert_config
from cli_session import run
from graces import AT, measured, measurement, pool_measurement
from stack_file import ZERO, StackFile, sample, task

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import MeasurementError
from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.measurement import Measurement
from orphanwatch.exporter.measurement_file import measurement_text, read_measurement
from orphanwatch.exporter.names import GRACE_SECONDS, GraceSource, Role
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.state import CounterBook
from orphanwatch.exporter.web_pages import RunbookPages


def written(folder: Path, made: Measurement | None = None) -> Path:
    """Return the file of a measurement."""
    file = folder / "grace.yml"
    file.write_text(measurement_text(made or measurement()), encoding="utf-8")
    return file


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """All of it, and the same bytes each time."""
    file = written(tmp_path)
    assert read_measurement(file) == measurement()
    assert measurement_text(read_measurement(file)) == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(
            lambda text: text.replace("in_force_seconds: 1.2", "in_force_seconds: 0.9"),
            "was changed after it was written: its digest does not fit",
            id="a number changed by hand",
        ),
        pytest.param(
            lambda text: text.replace("2027-02", "2037-02"),
            "was changed after it was written: its digest does not fit",
            id="a longer validity written by hand",
        ),
        pytest.param(
            lambda text: text.replace("format: 1", "format: 2"),
            "is no measurement that this version reads (format: Input should be 1)",
            id="a later format",
        ),
        pytest.param(
            lambda text: text.replace("settled", "samples"),
            "is no measurement that this version reads (pools.overflow.settled: Field required)",
            id="a key that is missing",
        ),
        pytest.param(lambda _: "", "is no measurement: it holds no mapping", id="an empty file"),
        pytest.param(lambda _: "{", "is not YAML", id="no YAML"),
        pytest.param(lambda _: "[" * 2000, "is not YAML", id="nested without end"),
        pytest.param(
            lambda text: text + "#" * 2_000_000,
            "is far too large to be a measurement",
            id="huge",
        ),
    ],
)
def test_a_file_that_is_not_as_it_was_written(
    spoil: Callable[[str], str], said: str, tmp_path: Path
) -> None:
    """Is refused, with its name, the reason and the remedy."""
    file = written(tmp_path)
    file.write_text(spoil(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(MeasurementError) as caught:
        read_measurement(file)
    assert str(caught.value) == f"{file} {said}; measure again, with orphanwatch grace --save"


def test_a_grace_below_its_own_bound_is_refused(tmp_path: Path) -> None:
    """Even where the digest fits: it would make an orphan of every straggler."""
    made = measurement(pools={"overflow": pool_measurement(in_force=micros(0.5))})
    with pytest.raises(MeasurementError, match="holds a grace below its own upper bound"):
        read_measurement(written(tmp_path, made))


def test_what_is_measured_wins_over_every_proposal() -> None:
    """The pool's own too; a pool that the file does not hold keeps its proposal."""
    pools = {
        "paid": {"role": "paid", "grace_seconds": "2s"},
        "overflow": {"role": "overflow", "grace_seconds": "3s"},
    }
    config = measured(alert_config(pools=pools))
    assert (config.grace_of("overflow"), config.grace_of("paid")) == (1_200_000, 2_000_000)
    assert config.grace_source("overflow") is GraceSource.MEASURED
    assert config.grace_source("paid") is GraceSource.PROPOSAL
    assert config.measurement_problem == ""


@pytest.mark.parametrize(
    ("settings", "changes", "said"),
    [
        pytest.param(
            {"grace_quantile": 0.95}, {},
            "was measured with grace_quantile 0.99, and the config says 0.95", id="its quantile",
        ),
        pytest.param(
            {"grace_margin": 2}, {},
            "was measured with grace_margin 1.5, and the config says 2.0", id="its margin",
        ),
        pytest.param(
            {"service": "chat"}, {},
            "was measured with service llm-inference, and the config says chat", id="its service",
        ),
        pytest.param(
            {"pools": {"spare": {"role": "overflow"}}}, {},
            "has a pool overflow, which the config does not have", id="a pool that is gone",
        ),
        pytest.param(
            {"pools": {"overflow": {"role": "paid"}}}, {},
            "was measured with pool overflow as overflow, now it is paid", id="its pool's role",
        ),
        pytest.param(
            {"service": "chat", "pools": {"overflow": {"role": "paid"}}},
            {"service": None, "pools": {"overflow": pool_measurement(role=None)}},
            "", id="not what was unknown when it was measured",
        ),
        pytest.param(
            {"pools": {"overflow": {"role": "overflow"}, "more": {"role": "overflow"}}}, {},
            "", id="not a pool that is new",
        ),
        pytest.param(
            {}, {"pools": {"other": pool_measurement(role=None)}}, "", id="not the pool other",
        ),
    ],
)  # fmt: skip
def test_what_a_measurement_is_bound_to(
    settings: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    """With another one of these in the config it is out, and the config says why."""
    config = measured(alert_config(**settings), **changes)
    assert (config.measurement is None) == bool(said)
    problem = f"grace.file: grace.yml {said}; run orphanwatch grace" if said else ""
    assert config.measurement_problem == problem


@pytest.mark.parametrize(("late", "source"), [(0, GraceSource.MEASURED), (1, GraceSource.PROPOSAL)])
def test_it_holds_up_to_its_last_instant(late: int, source: GraceSource) -> None:
    """And not a microsecond longer."""
    config = measured(alert_config())
    at = Instant(measurement().valid_until + late)
    assert config.as_of(at).grace_source("overflow") is source
    assert ("has expired: valid until 2027-02-14T08:00:00Z" in config.as_of(at).measurement_problem
            ) == bool(late)  # fmt: skip


def stack_with(folder: Path, made: Measurement) -> StackFile:
    """Return a small stack whose config names a measurement."""
    written(folder, made)
    stack = StackFile(folder, grace={"file": "grace.yml"})
    stack.add("tasks", task("t1", submitted_at=-9))
    stack.add("queue", sample(-1))
    return stack


def test_an_expired_measurement_is_out_of_the_evaluation_and_noted(tmp_path: Path) -> None:
    """``snapshot --at`` looks at the instant that it is asked for, and never falls in silence."""
    stack = stack_with(tmp_path, measurement())
    before, after = stack.document(0), stack.document(31 * 86400)
    label = {"pool": "overflow"}
    assert {"labels": {**label, "source": "measured"}, "value": 1.2} in (
        before["metrics"]["orphan_grace_seconds"]
    )
    assert {"labels": {**label, "source": "proposal"}, "value": 1.0} in (
        after["metrics"]["orphan_grace_seconds"]
    )
    assert "orphan_grace_valid_until_timestamp_seconds" not in after["metrics"]
    [note] = [note for note in after["notes"] if "grace" in note]
    assert note.replace(f"{tmp_path}/", "") == (
        "the grace is a proposal: grace.file: grace.yml has expired: valid until "
        "2027-02-14T08:00:00Z; run orphanwatch grace --config.file orphanwatch.yml --save grace.yml"
    )
    late = str(ZERO + 31 * 86400)
    answer = run(tmp_path, "snapshot", "--config.file", "orphanwatch.yml", "--at", late)
    assert "# the grace is a proposal: grace.file: grace.yml has expired" in answer.err


def test_serve_falls_back_when_it_expires_and_says_so_once(tmp_path: Path) -> None:
    """In the log; from the next refresh on the cutoff and the gauge are those of the proposal."""
    config = stack_with(tmp_path, measurement()).config
    now = [AT]
    book = CounterBook.open(None, config, AT)
    refresher = Refresher(config, lambda: now[0], book)
    try:
        with structlog.testing.capture_logs() as logs:
            graces = []
            for passed in (0, 31 * 86400, 31 * 86400 + 5):
                now[0] = Instant(AT + micros(passed))
                gauges = refresher.refresh().gauges
                graces.append({s.labels: s.value for s in gauges[GRACE_SECONDS]})
    finally:
        refresher.stop()
        book.close()
    assert [("overflow", "measured") in each for each in graces] == [True, False, False]
    [said] = [log for log in logs if log["event"] == "measured grace not used"]
    assert said["log_level"] == "error"
    assert "has expired" in said["problem"]


def test_the_pages_of_serve_follow() -> None:
    """They carry the number that the exporter uses, at any time."""
    config = measured(alert_config())
    now = [AT]
    pages = RunbookPages(
        config, lambda each: {"page.md": str(each.grace_of("overflow"))}, lambda: now[0]
    )
    assert pages["page.md"] == b"1200000"
    now[0] = Instant(measurement().valid_until + 1)
    assert pages["page.md"] == b"1000000"
    assert (list(pages), len(pages)) == (["page.md"], 1)


GENERATED = (
    ("alerts", "build", "--out", "out"),
    ("dashboards", "build", "--out", "out"),
    ("runbook", "render", "--out", "out"),
)


@pytest.mark.parametrize("command", GENERATED, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"valid_until": AT}, "has expired: valid until 2027-01-15", id="expired"),
        pytest.param({"margin": 2.0}, "was measured with grace_margin 2.0", id="mismatched"),
        pytest.param(None, "can't be read (No such file or directory)", id="missing"),
    ],
)
def test_nothing_is_generated_from_a_measurement_that_is_not_in_force(
    command: tuple[str, ...], changes: dict[str, Any] | None, said: str, tmp_path: Path
) -> None:
    """The error names file, reason and remedy, and no file is written."""
    if changes == {"valid_until": AT}:
        changes = {"valid_until": Instant(wall_clock() - 1)}
        said = "has expired"
    stack_with(tmp_path, measurement(**(changes or {})))
    if changes is None:
        (tmp_path / "grace.yml").unlink()
    answer = run(tmp_path, *command, "--config.file", "orphanwatch.yml")
    assert answer.code == 2
    assert f"grace.file: grace.yml {said}" in answer.err
    assert "run orphanwatch grace --config.file orphanwatch.yml --save grace.yml" in answer.err
    assert not (tmp_path / "out").exists()


def test_what_is_generated_has_the_measured_number(tmp_path: Path) -> None:
    """The threshold line of the page, and its provenance."""
    now = wall_clock()
    stack_with(tmp_path, measurement(valid_until=Instant(now + micros(3600))))
    answer = run(tmp_path, "runbook", "render", "--config.file", "orphanwatch.yml", "--out", "out")
    assert answer.code == 0
    page = (tmp_path / "out" / "service-page.md").read_text(encoding="utf-8")
    assert "Shed overflow when lease_age + 1.2s > deadline_slack" in page


def test_check_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    """A finding that must be mended: exit code 1."""
    stack_with(tmp_path, replace(measurement(), pools={"gone": pool_measurement(role=Role.PAID)}))
    answer = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    assert answer.code == 1
    assert "wrong  grace.file: grace.yml has a pool gone, which the config does not have" in (
        answer.out
    )
