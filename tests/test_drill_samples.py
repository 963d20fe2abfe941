"""What a drill measured of propagation is kept where the grace is measured, and marked."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from drills import CONFIG, drill, write_stack

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.faults import Fault
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.drill.samples import keep_samples, samples_of
from orphanwatch.exporter.instants import Instant, micros, parse_instant
from orphanwatch.exporter.state import CounterBook

NOW = Instant(1_800_000_100_000_000)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return the config of an empty stack that names a state file."""
    write_stack(tmp_path)
    file = tmp_path / "orphanwatch.yml"
    file.write_text(CONFIG.replace("SHAPE", "increments") + "state_file: watch.state\n")
    return load_config(file)


def kept(folder: Path) -> list[tuple[str, str, float, int, int, str]]:
    """Return the samples in the state file."""
    with closing(sqlite3.connect(folder / "watch.state")) as state:
        return state.execute(
            "SELECT task_id, pool, seconds, stopped_at, counted, source FROM propagations"
            " ORDER BY task_id"
        ).fetchall()


def test_the_settled_samples_of_a_drill_stand_in_the_state_file(
    config: Config, tmp_path: Path
) -> None:
    """Pool, seconds and when; in a file that was not there before."""
    report = drill(config, tmp_path)
    assert keep_samples(report, config) == (
        "5 samples of propagation kept in the state file, marked drill"
    )
    start = parse_instant(report.started_at)
    cancelled = [task for task in report.tasks if task.cancel_at_s is not None]
    assert kept(tmp_path) == [
        (task.task_id, "overflow", task.propagation_s, start + micros(3.5), 0, "drill")
        for task in cancelled
    ]


def test_samples_of_a_broken_hop_say_which(config: Config, tmp_path: Path) -> None:
    """So that nobody takes what was slowed on purpose for the grace."""
    report = drill(config, tmp_path, Fault.SLOW_HEARTBEAT)
    keep_samples(report, config)
    assert {(seconds > 1, source) for _, _, seconds, _, _, source in kept(tmp_path)} == {
        (True, "drill:heartbeat")
    }


def test_a_cancel_that_never_arrived_is_no_settled_sample(config: Config, tmp_path: Path) -> None:
    """And no state file is made for nothing."""
    report = drill(config, tmp_path, Fault.DROP_CANCEL)
    assert samples_of(report) == ()
    assert "no sample" in keep_samples(report, config)
    assert not (tmp_path / "watch.state").exists()


def test_an_exporter_that_has_the_file_open_goes_on_undisturbed(
    config: Config, tmp_path: Path
) -> None:
    """It keeps its counters; the samples are beside them when it comes back."""
    report = drill(config, tmp_path)
    book = CounterBook.open(config.state_file, config, NOW)
    try:
        before = book.counters
        assert "kept in the state file" in keep_samples(report, config)
        assert book.counters == before
    finally:
        book.close()
    again = CounterBook.open(config.state_file, config, NOW)
    try:
        assert again.counters == before
    finally:
        again.close()
    assert len(kept(tmp_path)) == 5


def test_samples_that_are_kept_twice_are_there_once(config: Config, tmp_path: Path) -> None:
    """A second report of the same drill adds none."""
    report = drill(config, tmp_path)
    keep_samples(report, config)
    keep_samples(report, config)
    assert len(kept(tmp_path)) == 5


def a_text_file(path: Path) -> None:
    """Write something that is no state file."""
    path.write_text("hello, this is no database at all")


def somebody_elses(path: Path) -> None:
    """Write a database of another program."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (x)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(a_text_file, "is damaged, or no SQLite file", id="no database"),
        pytest.param(somebody_elses, "is a database of something else", id="another program's"),
        pytest.param(Path.mkdir, "can't be opened", id="a folder"),
    ],
)
def test_a_file_that_takes_no_samples_costs_the_samples_alone(
    config: Config, tmp_path: Path, make: object, says: str
) -> None:
    """One line says why, and the drill has its result."""
    assert callable(make)
    make(tmp_path / "watch.state")
    said = keep_samples(drill(config, tmp_path), config)
    assert said.startswith("samples of propagation are in the report alone: state file ")
    assert says in said


def test_without_a_state_file_they_are_in_the_report_alone(tmp_path: Path) -> None:
    """Which is said."""
    config = write_stack(tmp_path)
    report: DrillReport = drill(config, tmp_path)
    assert "names no state_file" in keep_samples(report, config)
    assert len(samples_of(report)) == 5
