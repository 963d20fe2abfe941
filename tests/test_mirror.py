"""A mirror forgets what nobody can ask about any more, and nothing else."""

from collections.abc import Iterable

import pytest

from orphanwatch.exporter.config import parse_config
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.mirror import Mirror
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row

ZERO = 1_800_000_000 * SECOND
LONG_AFTER = Instant(ZERO + 86400 * SECOND)
COLUMNS = ("task_id", "retry_id", "submitted_at", "deadline_at", "cancelled_at", "finished_at")


class Log:
    """Rows that are all told at the first read."""

    columns: tuple[str, ...] = COLUMNS
    keeps = True

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def read(self, windows: Windows) -> Iterable[Row]:  # noqa: ARG002  (all of them, once)
        """Return the rows, and none the next time."""
        rows, self._rows = self._rows, []
        return rows

    def rejected(self) -> tuple[Rejected, ...]:
        """Return nothing."""
        return ()

    def clock_skew_seconds(self) -> float | None:
        """Return None."""
        return None

    def close(self) -> None:
        """Nothing is held."""


def kept(*rows: dict[str, object]) -> list[str]:
    """Return the ids that are left a day after what the rows tell; instants in seconds."""
    cells = [
        tuple(
            ZERO + int(str(row[name])) * SECOND if name.endswith("_at") and name in row
            else row.get(name)
            for name in COLUMNS
        )
        for row in rows
    ]  # fmt: skip
    mirror = Mirror(StoreName.GATEWAY, Log(cells))
    config = parse_config({"stores": {"gateway": {"type": "sql", "url": "sqlite://"}}})
    mirror.fill(Windows.ending(LONG_AFTER, config))
    with mirror.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT task_id FROM rows ORDER BY task_id")
        return [row[0] for row in found]


@pytest.mark.parametrize(
    ("row", "stays"),
    [
        pytest.param({"finished_at": 5}, False, id="a task that finished is forgotten"),
        pytest.param(
            {"finished_at": 5, "deadline_at": 9}, False, id="so is one that finished in time"
        ),
        pytest.param({"cancelled_at": 5}, True, id="a cancel is remembered: its orphan may live"),
        pytest.param({"deadline_at": 5}, True, id="so is a deadline that passed"),
        pytest.param({"deadline_at": 5, "finished_at": 9}, True, id="also where it finished later"),
        pytest.param({}, True, id="a task that has no end yet is remembered"),
    ],
)
def test_a_task_is_remembered_while_its_orphan_may_live(
    row: dict[str, object], *, stays: bool
) -> None:
    """An orphan that lives does not age out."""
    assert kept({"task_id": "t", "submitted_at": 0, **row}) == (["t"] if stays else [])


def test_an_attempt_beside_another_is_remembered() -> None:
    """The sibling's completion is why nobody waits for it."""
    attempts = [
        {"task_id": name, "retry_id": "r", "submitted_at": 0, "finished_at": 5} for name in "ab"
    ]
    alone = {"task_id": "c", "retry_id": "s", "submitted_at": 0, "finished_at": 5}
    assert kept(*attempts, alone) == ["a", "b"]
