"""A drill on the stores that people have: it sees what it does, and leaves nothing behind."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from database_servers import GUARDED_PASSWORD, RedisServer, guarded
from drills import drill
from redis import Redis
from redis_stores import as_reader
from sqlalchemy import NullPool, create_engine
from stack_file import TABLES, ZERO, StackFile, patience_of

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.clean import clean
from orphanwatch.exporter.drill.faults import HOPS, Fault
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.errors import DrillError, OrphanwatchError, StoreError
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
    with create_engine(url, poolclass=NullPool, connect_args=patience_of(url)).connect() as server:
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


@pytest.mark.parametrize("shop", POSTGRESQL.values(), ids=POSTGRESQL)
def test_a_drill_is_seen_in_postgresql(tmp_path: Path, postgresql_url: str, shop: Shop) -> None:
    """Whatever the tables hold instants as."""
    fault = Fault.DROP_CANCEL
    assert_told(drilled(shop.stack(tmp_path, postgresql_url), tmp_path, fault), fault)


@pytest.mark.parametrize("fault", [None, *Fault], ids=str)
def test_every_fault_is_told_apart_in_postgresql(
    tmp_path: Path, postgresql_url: str, fault: Fault | None
) -> None:
    """Each, and none, on native stamps."""
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


FORMS: dict[str, dict[str, Any]] = {
    "a hash at a key of its own": {
        "key": "lease:{pool}:{worker_id}:{task_id}",
        "columns": {"acquired_at": "since", "heartbeat_at": "beat", "released_at": "until"},
        "unit": "ms",
    },
    "a hash a worker, its task within": {
        "key": "worker:{worker_id}",
        "columns": {"task_id": "task", "acquired_at": "since", "heartbeat_at": "beat"},
        "unit": "iso",
    },
    "a string that holds the heartbeat": {
        "key": "lease:{worker_id}/{task_id}",
        "value": "heartbeat_at",
        "unit": "s",
    },
    "a key that expires": {"key": "lease:{worker_id}/{task_id}", "ttl": "30s"},
    "a hash at a key that expires": {
        "key": "lease:*",
        "columns": {"task_id": "task", "worker_id": "owner", "acquired_at": "since"},
        "unit": "us",
        "ttl": "30s",
    },
    "a sorted set by heartbeat": {
        "key": "running",
        "member": "{worker_id}/{task_id}",
        "score": "heartbeat_at",
        "unit": "ms",
    },
    "a sorted set a pool, by expiry": {
        "key": "running:{pool}",
        "member": "{worker_id}/{task_id}",
        "score": "expires_at",
        "ttl": "30s",
        "unit": "s",
    },
}


def with_redis_leases(folder: Path, url: str, **form: Any) -> StackFile:
    """Return a stack in SQLite whose leases are in Redis."""
    leases = {"type": "redis", "url": url, **form}
    stack = StackFile(folder)
    document = yaml.safe_load(stack.config_file.read_text())
    document["stores"]["leases"] = leases
    stack.config_file.write_text(yaml.safe_dump(document))
    return stack


PLAYED = [
    *((form, fault) for form in FORMS for fault in (Fault.DROP_CANCEL, Fault.SLOW_HEARTBEAT)),
    ("a hash at a key of its own", None),
    ("a hash at a key of its own", Fault.SECOND_DECODER),
]


@pytest.mark.parametrize(("form", "fault"), PLAYED)
def test_leases_in_redis_are_seen_in_every_form(
    tmp_path: Path, redis_url: str, form: str, fault: Fault | None
) -> None:
    """Though a lease is gone there once it ends; the keys of others stay as they were."""
    stack = with_redis_leases(tmp_path, redis_url, **FORMS[form])
    theirs = {"cache:x": "1", "orphanwatch-drill-": "2"}
    with Redis.from_url(redis_url, decode_responses=True) as redis:
        redis.mset(theirs)

        report = drilled(stack, tmp_path, fault)

        assert_told(report, fault)
        assert {key: redis.get(key) for key in redis.keys()} == theirs  # noqa: SIM118  (KEYS)


def test_leases_of_others_in_redis_are_left_alone(tmp_path: Path, redis_url: str) -> None:
    """By a drill and by a clean, though their ids look alike."""
    form = FORMS["a hash at a key of its own"]
    config = load_config(with_redis_leases(tmp_path, redis_url, **form).config_file)
    theirs = {
        f"lease:paid:w:{task_id}" for task_id in ("t", "orphanwatch_drill-1", "ORPHANWATCH-DRILL-1")
    }
    with Redis.from_url(redis_url, decode_responses=True) as redis:
        for key in theirs:
            redis.hset(key, mapping={"since": 1, "beat": 1})
        drill(config, tmp_path, None, look_every=micros(8))
        redis.hset("lease:paid:w:orphanwatch-drill-0-task-1", mapping={"since": 1})
        assert clean(config, tmp_path).rows == 1
        assert set(redis.scan_iter()) == theirs


def test_keys_that_hold_one_lease_a_task_show_no_second_decoder(
    tmp_path: Path, redis_url: str
) -> None:
    """All other hops can be drilled on them."""
    form = {"key": "lease:{task_id}", "columns": {"heartbeat_at": "beat", "worker_id": "owner"}}
    stack = with_redis_leases(tmp_path, redis_url, **form, unit="s")
    assert_told(drilled(stack, tmp_path, Fault.DROP_CANCEL), Fault.DROP_CANCEL)
    with pytest.raises(StoreError, match="one lease a task"):
        drilled(stack, tmp_path, Fault.SECOND_DECODER)


def test_a_drill_tells_the_rights_that_it_lacks_in_redis(tmp_path: Path, redis_url: str) -> None:
    """And writes nothing before it has them all."""
    form = FORMS["a hash at a key of its own"]
    reader = as_reader(redis_url)
    stack = with_redis_leases(tmp_path, reader, **form)
    with pytest.raises(StoreError, match="does not let this user write leases; grant"):
        drilled(stack, tmp_path, None)
    with Redis.from_url(redis_url) as redis:
        assert redis.dbsize() == 0


def stack_without(folder: Path, store: str, column: str) -> StackFile:
    """Return a stack in which one column is missing."""
    table = {"gateway": "tasks", "leases": "leases", "ledger": "ledger"}[store]
    columns = ", ".join(
        part for part in TABLES[table].split(", ") if not part.startswith(f"{column} ")
    )
    return StackFile(folder, tables={**TABLES, table: columns})


@pytest.mark.parametrize(
    ("store", "column", "fault", "says"),
    [
        ("gateway", "cancelled_at", None, "store gateway: has no cancelled_at.*cancel_channel"),
        ("gateway", "retry_id", None, "store gateway: has no retry_id.*hop retry"),
        ("leases", "heartbeat_at", None, "store leases: has no heartbeat_at.*hop heartbeat"),
        ("leases", "worker_id", Fault.SECOND_DECODER, "store leases: has no worker_id.*hop worker"),
        ("leases", "worker_id", Fault.MISKEYED_LEDGER, "has no worker_id.*hop ledger"),
        (
            "gateway",
            "deadline_at",
            Fault.SLOW_HEARTBEAT,
            "store gateway: has no deadline_at.*hop heartbeat",
        ),
        (
            "gateway",
            "submitted_at",
            Fault.SLOW_HEARTBEAT,
            "store gateway: has no submitted_at.*hop heartbeat",
        ),
        ("ledger", "charged_at", None, "store ledger: its table has no column 'charged_at'"),
    ],
)
def test_a_hop_that_the_config_does_not_name_is_refused(
    tmp_path: Path, store: str, column: str, fault: Fault | None, says: str
) -> None:
    """With what to add."""
    stack = stack_without(tmp_path, store, column)
    with pytest.raises(StoreError, match=f"{says}.*(columns:|add one)"):
        drilled(stack, tmp_path, fault)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stores": {"leases": None}}, "store leases: is not configured.*add stores.leases"),
        (
            {"stores": {"ledger": {"relation": "(SELECT * FROM ledger)"}}},
            "store ledger: its relation is a SELECT.*the table",
        ),
        (
            {"stores": {"leases": {"relation": "leased"}}},
            "store leases: there is no table 'leased'",
        ),
        ({"stores": {"gateway": {"relation": "seen"}}}, "store gateway: 'seen' is a view"),
        (
            {"stores": {"ledger": {"strip_suffix": "-[0-9]+"}}},
            "store ledger: strip_prefix.*would change a drill's ids.*copy of the config",
        ),
        ({"stores": {"leases": {"lease_ttl": "3s"}}}, "lease_ttl 3s ends a lease.*--drill.file"),
        ({"stores": {"gateway": {"columns": {"pool": "team"}}}}, "no column 'team'"),
        ({"stores": {"gateway": {"url": "sqlite:///gone.db"}}}, "store gateway: unable to open"),
        ({"pools": {"paid": {"role": "paid"}}}, "none has role overflow.*add for example"),
        ({"pools": {"free": {"role": "overflow"}}}, "none has role paid.*add for example"),
    ],
)
def test_a_config_that_can_not_be_drilled_is_refused(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    """Before anything was written, a file that is not there included."""
    stack = StackFile(tmp_path, **settings)
    stack.run_sql("CREATE VIEW seen AS SELECT * FROM tasks")
    with pytest.raises(OrphanwatchError, match=says):
        drilled(stack, tmp_path, None)
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize(
    ("store", "settings", "says"),
    [
        ("leases", {"type": "redis", "preset": "rq"}, "preset rq.*copy of the config.*type: redis"),
        (
            "leases",
            {"type": "redis", "preset": "bullmq", "queues": ["q"]},
            "preset bullmq.*copy of the config",
        ),
        ("gateway", {"type": "redis", "preset": "celery"}, "preset celery.*table of your own"),
        (
            "ledger",
            {
                "type": "http_json",
                "url": "http://127.0.0.1:9/x",
                "columns": {"task_id": "id", "tokens": "n", "charged_at": "at"},
                "shape": "cumulative",
            },
            "type http_json.*table of your own",
        ),
        (
            "ledger",
            {
                "type": "prometheus",
                "form": "exposition",
                "url": "http://127.0.0.1:9/metrics",
                "metrics": {"tokens": "x_total"},
            },
            "type prometheus.*of your own",
        ),
    ],
    ids=["rq", "bullmq", "celery", "http_json", "prometheus"],
)
def test_a_store_of_a_kind_that_takes_no_rows_is_refused(
    tmp_path: Path, store: str, settings: dict[str, Any], says: str
) -> None:
    """A job queue's own keys too: a drill would be taken for work."""
    stack = StackFile(tmp_path)
    document = yaml.safe_load(stack.config_file.read_text())
    if settings["type"] == "redis":
        settings = {**settings, "url": "redis://127.0.0.1:9/0"}
    document["stores"][store] = settings
    stack.config_file.write_text(yaml.safe_dump(document))
    with pytest.raises(StoreError, match=f"store {store}: is of {says}"):
        drilled(stack, tmp_path, None)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_user_who_may_only_read_is_told_what_is_missing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """And no secret is in what is said."""
    url = request.getfixturevalue(f"{kind}_url")
    stack = Shop().stack(tmp_path, url)
    stack.url = guarded(url)
    stack.configure()
    with pytest.raises(StoreError, match=r"the user may not write to it.*GRANT") as refused:
        drilled(stack, tmp_path, None)
    assert GUARDED_PASSWORD not in str(refused.value)


def test_a_table_that_wants_more_than_a_drill_knows_is_refused(
    tmp_path: Path, postgresql_url: str
) -> None:
    """A column that must not be empty; rows of a drill that row security would hide."""
    stack = StackFile(
        tmp_path,
        tables={
            **{name: columns.replace("REAL", "FLOAT8") for name, columns in TABLES.items()},
            "ledger": "task_id TEXT, tokens BIGINT, charged_at FLOAT8, invoice TEXT NOT NULL",
        },
        url=postgresql_url,
    )
    with pytest.raises(StoreError, match=r'store ledger: null value in column "invoice".*tables'):
        drilled(stack, tmp_path, None)


def test_a_column_too_coarse_for_an_epoch_is_refused(tmp_path: Path, postgresql_url: str) -> None:
    """Four bytes of floating point: their steps are two minutes by now."""
    with pytest.raises(StoreError, match=r"submitted_at is a number of four bytes.*DOUBLE"):
        drilled(StackFile(tmp_path, url=postgresql_url), tmp_path, None)


def test_a_trigger_that_hides_rows_is_found_before_the_start(tmp_path: Path) -> None:
    """They could not be taken away again."""
    stack = StackFile(tmp_path)
    stack.run_sql(
        "CREATE TRIGGER hide AFTER INSERT ON leases BEGIN"
        " UPDATE leases SET task_id = 'hidden' WHERE task_id = new.task_id; END"
    )
    with pytest.raises(StoreError, match="store leases: takes a drill's rows and does not show"):
        drilled(stack, tmp_path, None)


def test_a_promotion_rests_on_no_silent_ledger(tmp_path: Path) -> None:
    """Rows that are filed elsewhere half way: a zero of them is none."""
    stack = StackFile(tmp_path)
    config = load_config(stack.config_file)

    def silence(offset: int) -> None:
        if offset == micros(1):
            stack.run_sql(
                "CREATE TRIGGER deaf AFTER INSERT ON ledger BEGIN"
                " UPDATE ledger SET tokens = NULL WHERE rowid = new.rowid; END"
            )

    report = drill(config, tmp_path, None, pace=silence)
    assert report.telemetry.orphan_token_delta == 0
    assert not report.promoted
    assert "tokens in the ledger" in report.truth.disagreements[0]


def test_a_ledger_that_only_reports_its_share_promotes_no_orphan(tmp_path: Path) -> None:
    """Its delta stays at zero by its own setting, which proves nothing."""
    stack = StackFile(tmp_path, stores={"ledger": {"shape": "final", "prorated": "report"}})
    report = drilled(stack, tmp_path, Fault.DROP_CANCEL)
    assert report.truth.disagreements == ()
    assert report.telemetry.orphan_token_delta == 0
    assert not report.promoted


def test_a_store_that_breaks_on_the_way_ends_the_drill_and_costs_no_other(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """What can be reached is cleaned; what can't is named, and cleaned later."""
    form = FORMS["a hash at a key of its own"]
    stack = with_redis_leases(tmp_path, redis_server.new_database(), **form)
    config = load_config(stack.config_file)

    def stop(offset: int) -> None:
        if offset == micros(5):
            redis_server.stop()

    with pytest.raises(DrillError, match=r"store leases: .*store leases: .*drill clean") as broke:
        drill(config, tmp_path, Fault.DROP_CANCEL, pace=stop)
    assert "store gateway" not in str(broke.value)
    assert set(rows_of(stack).values()) == {0}
    taken = clean(config, tmp_path)
    assert [problem.partition(":")[0] for problem in taken.problems] == ["store leases"]

    redis_server.start()
    assert clean(config, tmp_path).problems == ()
    assert list(tmp_path.glob(".orphanwatch-drill-*")) == []


def test_a_table_that_goes_away_on_the_way_leaves_no_row_in_the_others(
    tmp_path: Path, postgresql_url: str
) -> None:
    """One database, whose transaction had failed."""
    stack = Shop().stack(tmp_path, postgresql_url)
    config = load_config(stack.config_file)

    def drop(offset: int) -> None:
        if offset == micros(5):
            stack.run_sql("ALTER TABLE ledger RENAME TO away")

    with pytest.raises(DrillError, match="store ledger"):
        drill(config, tmp_path, Fault.DROP_CANCEL, pace=drop)
    stack.run_sql("ALTER TABLE away RENAME TO ledger")
    assert {name for name, rows in rows_of(stack).items() if rows} == {"ledger"}
    assert clean(config, tmp_path).rows > 0
    assert set(rows_of(stack).values()) == {0}


LOOK_ALIKES = (
    "orphanwatch_drill-{run}-task-3",
    "ORPHANWATCH-DRILL-{run}-TASK-3",
    "orphanwatch-drill",
    "xorphanwatch-drill-{run}-task-3",
    "orphanwatch%drill-1",
    "Orphanwatch-Drill-{run}-task-3 ",
)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_rows_that_merely_look_like_a_drills_are_left_alone(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Even the very id in capitals, where the database takes both for one; and samples alike."""
    url = None if kind == "sqlite" else str(request.getfixturevalue(f"{kind}_url"))
    stack = Shop().stack(tmp_path, url)
    config = load_config(stack.config_file)

    def beside(offset: int) -> None:
        if offset == micros(2):
            [journal] = tmp_path.glob(".orphanwatch-drill-*.journal")
            run = journal.name.split("-")[-1].partition(".")[0]
            for look_alike in LOOK_ALIKES:
                row = {"task_id": look_alike.format(run=run)}
                stack.add("tasks", row)
                stack.add("leases", {**row, "worker_id": "w"})
                stack.add("ledger", {**row, "tokens": 7})
            sample = json.loads(journal.read_text().splitlines()[0])
            sample["sampled_at"] = sample["sampled_at"] / 1e6 - ZERO
            stack.add("queue", sample, {**sample, "depth": 5})

    drill(config, tmp_path, Fault.MISKEYED_LEDGER, pace=beside)
    kept = {"tasks": 6, "leases": 6, "ledger": 6, "queue": 2}
    assert rows_of(stack) == kept
    assert clean(config, tmp_path).rows == 0
    assert rows_of(stack) == kept


def test_two_drills_at_once_leave_each_others_rows(tmp_path: Path, postgresql_url: str) -> None:
    """One that ends takes its own away; a clean in between takes none of a running one's."""
    stack = Shop(instant="TIMESTAMPTZ").stack(tmp_path, postgresql_url)
    config = load_config(stack.config_file)
    seen: list[dict[str, int]] = []

    def beside(offset: int) -> None:
        if offset == micros(5):
            seen.append(rows_of(stack))
            drill(config, tmp_path, None, look_every=micros(8))
            seen.append(rows_of(stack))
            taken = clean(config, tmp_path)
            assert (taken.rows, len(taken.running)) == (0, 1)
            seen.append(rows_of(stack))

    drill(config, tmp_path, Fault.DROP_CANCEL, look_every=micros(8), pace=beside)
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]["leases"] > 0
    assert set(rows_of(stack).values()) == {0}
