"""What MariaDB reads at a refresh, by its own counters: never a table from end to end."""

from pathlib import Path

import pytest
from sql_tables import typed
from sqlalchemy import NullPool, create_engine
from stack_file import StackFile, read

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.check import run_check
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.reading import read_stores

pytestmark = pytest.mark.servers

ROWS = 30_000
STAMPS = {
    "timestamp(6) NULL": "FROM_UNIXTIME({})",
    "timestamp NULL": "FROM_UNIXTIME({})",
    "datetime(6)": "FROM_UNIXTIME({})",
    "double": "({})",
    "bigint": "({})",
}


def large_stack(folder: Path, url: str, declared: str, ledger: dict[str, str]) -> StackFile:
    """Return a stack with a long history and the indexes that are advised."""
    kinds = {f"{table}__task_id": "varchar(40)" for table in ("tasks", "leases", "ledger")}
    tables = typed("double", declared, **kinds)
    stack = StackFile(folder, tables=tables, url=url, stores={"ledger": ledger})
    begun = STAMPS[declared].format("1800000000 - seq * 20 + {}")
    stack.run_sql(
        "SET time_zone = '+00:00'",
        "INSERT INTO tasks (task_id, retry_id, pool, submitted_at, deadline_at, cancelled_at,"  # noqa: S608  (values of ours)
        " finished_at) SELECT CONCAT('t', seq), CONCAT('r', seq), 'overflow',"
        f" {begun.format(0)}, {begun.format(9)}, IF(MOD(seq, 50) = 0, {begun.format(1)}, NULL),"
        f" {begun.format(2)} FROM seq_1_to_{ROWS}",
        "INSERT INTO ledger (task_id, tokens, charged_at, started_at)"  # noqa: S608  (likewise)
        f" SELECT CONCAT('t', seq DIV 2), 1, {begun.format(1)}, {begun.format(0)}"
        f" FROM seq_1_to_{ROWS}",
        "INSERT INTO leases (task_id, worker_id, acquired_at, heartbeat_at, released_at)"  # noqa: S608  (likewise)
        f" SELECT CONCAT('t', seq), 'w', {begun.format(0)}, {begun.format(1)}, {begun.format(2)}"
        f" FROM seq_1_to_{ROWS}",
    )
    sign = "an index is missing; "
    found = [finding.said for finding in run_check(stack.config, instant_of_epoch(1_800_000_030))]
    advised = [said.removeprefix(sign).rstrip(";") for said in found if said.startswith(sign)]
    stack.run_sql(*advised, "ANALYZE TABLE tasks, leases, ledger")
    return stack


def rows_read(url: str) -> int:
    """Return how many rows the server has read so far, in whatever way."""
    with create_engine(url, poolclass=NullPool).connect() as server:
        counters = server.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'Handler_read_%%'").all()
    # Rows of its own temporary tables are not among these.
    return sum(int(count) for name, count in counters if name.endswith(("_rnd_next", "_next")))


@pytest.mark.parametrize("declared", STAMPS)
@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_a_refresh_reads_what_is_recent(
    shape: str, declared: str, mariadb_url: str, tmp_path: Path
) -> None:
    """In each type of stamp and each shape of ledger an index serves every question."""
    stack = large_stack(tmp_path, mariadb_url, declared, {"shape": shape})
    channels = Channels(stack.config)
    begun = rows_read(mariadb_url)
    read_stores(channels, stack.config, instant_of_epoch(1_800_000_030))
    few = rows_read(mariadb_url) - begun
    channels.stop()

    assert read(stack.document(30), "orphan_store_up") == 4
    assert few <= ROWS / 3, few
