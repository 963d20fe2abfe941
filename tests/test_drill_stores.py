"""A drill on the stores that people have: it sees what it does, and leaves nothing behind."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from drills import drill
from sqlalchemy import NullPool, create_engine
from stack_file import TABLES, StackFile

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.faults import HOPS, Fault
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.instants import micros

pytestmark = pytest.mark.servers

SEEN_BY_ALL = (None, Fault.DROP_CANCEL, Fault.MISKEYED_LEDGER, Fault.SECOND_DECODER)


@dataclass(frozen=True, kw_only=True)
class Shop:
    """One way in which somebody keeps the four tables."""

    instant: str = "DOUBLE PRECISION"
    """The type of every column of instants."""
    shape: str = "increments"
    ledger: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, Any] = field(default_factory=dict)
    """Settings of all stores."""
    tables: dict[str, str] = field(default_factory=dict)
    """Columns of a table, where they are other than usual."""
    mapped: dict[str, dict[str, str]] = field(default_factory=dict)

    def stack(self, folder: Path, url: str | None) -> StackFile:
        """Return the stack, its tables empty."""
        text = "VARCHAR(80)"
        tables = {
            name: self.tables.get(name, columns)
            .replace("_at REAL", f"_at {self.instant}")
            .replace("TEXT", text)
            for name, columns in TABLES.items()
        }
        stores: dict[str, Any] = {
            name: {**self.stores, **({"columns": self.mapped[name]} if name in self.mapped else {})}
            for name in ("gateway", "leases", "ledger", "queue")
        }
        stores["ledger"] |= {"shape": self.shape, **self.ledger}
        return StackFile(folder, tables=tables, stores=stores, url=url)


def rows_of(stack: StackFile) -> dict[str, int]:
    """Return how many rows each table holds."""
    url = stack.url or f"sqlite:///{stack.database}"
    with create_engine(url, poolclass=NullPool).connect() as server:
        return {
            table: server.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608  (names of ours)
            for table in TABLES
        }


def drilled(stack: StackFile, folder: Path, fault: Fault | None) -> DrillReport:
    """Play a drill on a stack, and make sure that nothing of it stays."""
    before = rows_of(stack)
    report = drill(load_config(stack.config_file), folder, fault, look_every=micros(2))
    assert rows_of(stack) == before
    return report


def assert_told(report: DrillReport, fault: Fault | None) -> None:
    """Make sure that the exporter saw what was, and that it named the hop."""
    assert report.truth.disagreements == ()
    assert report.hop == (HOPS[fault] if fault is not None else None)
    assert report.promoted is (fault is None)
    if fault is Fault.DROP_CANCEL:
        # Stamps of whole seconds put what is charged within the cutoff's second before it.
        assert report.telemetry.orphan_token_delta in {5 * 460, 5 * 444}


SHAPES = {
    "increments": Shop(),
    "cumulative": Shop(shape="cumulative"),
    "final, its rows only at the end of a lease": Shop(shape="final"),
    "final, without a start of its own": Shop(
        shape="final",
        tables={"ledger": "task_id TEXT, tokens REAL, charged_at REAL, prompt_tokens REAL"},
    ),
    "a lag of half a minute": Shop(ledger={"lag": "30s"}),
    "final with a lag": Shop(shape="final", ledger={"lag": "30s"}),
    "patterns that leave a drill's ids alone": Shop(
        stores={"strip_prefix": "chatcmpl-", "strip_suffix": "-[0-9a-f]{8}"}
    ),
}


@pytest.mark.parametrize("fault", SEEN_BY_ALL, ids=str)
@pytest.mark.parametrize("shop", SHAPES.values(), ids=SHAPES)
def test_each_shape_of_a_ledger_is_seen_in_sqlite(
    tmp_path: Path, shop: Shop, fault: Fault | None
) -> None:
    """The exporter's numbers are the drill's own, and what is promoted is what was clean."""
    assert_told(drilled(shop.stack(tmp_path, None), tmp_path, fault), fault)


POSTGRESQL = {
    "native stamps with a zone": Shop(instant="TIMESTAMPTZ"),
    "bare native stamps of Berlin": Shop(instant="TIMESTAMP", stores={"timezone": "Europe/Berlin"}),
    "native stamps of whole seconds": Shop(instant="TIMESTAMPTZ(0)"),
    "epochs in whole milliseconds": Shop(instant="BIGINT"),
    "epochs in whole seconds": Shop(instant="INTEGER"),
    "epochs with decimals": Shop(instant="NUMERIC(20, 3)"),
    "stamps as text": Shop(instant="TEXT"),
    "a final ledger with native stamps": Shop(instant="TIMESTAMPTZ", shape="final"),
    "a cumulative ledger of whole seconds": Shop(instant="INTEGER", shape="cumulative"),
    "columns of other names": Shop(
        instant="TIMESTAMPTZ",
        tables={
            "tasks": "request_id TEXT PRIMARY KEY, retry_id TEXT, attempt INTEGER, pool TEXT, "
            'created TIMESTAMPTZ, deadline_at REAL, "Left" TIMESTAMPTZ, finished_at REAL',
            "ledger": "id BIGSERIAL PRIMARY KEY, request_id TEXT, amount BIGINT, charged_at REAL",
        },
        mapped={
            "gateway": {"task_id": "request_id", "submitted_at": "created", "cancelled_at": "Left"},
            "ledger": {"task_id": "request_id", "tokens": "amount"},
        },
    ),
    "leases whose rows go away when they end": Shop(
        instant="TIMESTAMPTZ",
        tables={"leases": "task_id TEXT, worker_id TEXT, acquired_at REAL, heartbeat_at REAL"},
    ),
    "tables that refer to each other": Shop(
        instant="TIMESTAMPTZ",
        tables={
            "tasks": TABLES["tasks"].replace("task_id TEXT", "task_id TEXT PRIMARY KEY"),
            "leases": TABLES["leases"].replace("task_id TEXT", "task_id TEXT REFERENCES tasks"),
        },
    ),
}


@pytest.mark.parametrize("fault", [None, Fault.DROP_CANCEL, Fault.MISKEYED_LEDGER], ids=str)
@pytest.mark.parametrize("shop", POSTGRESQL.values(), ids=POSTGRESQL)
def test_a_drill_is_seen_in_postgresql(
    tmp_path: Path, postgresql_url: str, shop: Shop, fault: Fault | None
) -> None:
    """Whatever the tables hold instants as."""
    assert_told(drilled(shop.stack(tmp_path, postgresql_url), tmp_path, fault), fault)


@pytest.mark.parametrize("fault", [Fault.SLOW_HEARTBEAT, Fault.LOST_RETRY_ID, Fault.SECOND_DECODER])
def test_every_fault_is_told_apart_in_postgresql(
    tmp_path: Path, postgresql_url: str, fault: Fault
) -> None:
    """The other three, on native stamps."""
    stack = Shop(instant="TIMESTAMPTZ").stack(tmp_path, postgresql_url)
    assert_told(drilled(stack, tmp_path, fault), fault)


MARIADB = {
    "whole seconds of wall time in Berlin": Shop(
        instant="DATETIME", stores={"timezone": "Europe/Berlin"}
    ),
    "microseconds of wall time": Shop(instant="DATETIME(6)"),
    "stamps of the server": Shop(instant="TIMESTAMP(6) NULL"),
    "epochs in whole milliseconds": Shop(instant="BIGINT"),
    "a final ledger": Shop(instant="DATETIME(3)", shape="final"),
}


@pytest.mark.parametrize("fault", [None, Fault.DROP_CANCEL, Fault.SECOND_DECODER], ids=str)
@pytest.mark.parametrize("shop", MARIADB.values(), ids=MARIADB)
def test_a_drill_is_seen_in_mariadb(
    tmp_path: Path, mariadb_url: str, shop: Shop, fault: Fault | None
) -> None:
    """Whole seconds too, in which a cutoff falls between two stamps."""
    if shop.instant == "DATETIME" and fault is Fault.SECOND_DECODER:
        fault = Fault.MISKEYED_LEDGER  # in whole seconds a prompt release is none after the cancel
    assert_told(drilled(shop.stack(tmp_path, mariadb_url), tmp_path, fault), fault)
