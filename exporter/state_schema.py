"""The state file: its tables, its one owner, and what is wrong with it when it can't be used.

It is SQLite in WAL mode, so that others may read it (the propagation samples, for one) while its
owner writes; a drill adds its own samples to that table, beside the owner, in one short write.
``synchronous=FULL`` costs one flush per changed refresh, and what was committed outlives a killed
process and a power cut alike; so what was published is never taken back.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from orphanwatch.exporter.errors import StateError

SCHEMA_VERSION: Final = 1
"""Raise it when a table, or the edges of a histogram, change."""

APPLICATION_ID: Final = 0x4F524657
"""Marks the file as ours ("ORFW"), so that a store named by mistake is never written to."""

_BUSY_SECONDS: Final = 2.0
_IN_MEMORY: Final = ":memory:"

TABLES: Final = """
CREATE TABLE facts (
    name TEXT PRIMARY KEY, value INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counters (
    family TEXT, labels TEXT, value REAL NOT NULL, PRIMARY KEY (family, labels)
) WITHOUT ROWID;
CREATE TABLE histograms (
    family TEXT, labels TEXT, buckets TEXT NOT NULL, sum REAL NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (family, labels)
) WITHOUT ROWID;
CREATE TABLE task_marks (
    task_id TEXT PRIMARY KEY, charged REAL NOT NULL, prorated REAL NOT NULL,
    straddling REAL NOT NULL, seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX task_marks_seen ON task_marks (seen_at);
CREATE TABLE row_marks (
    store TEXT, reason TEXT, key TEXT, count INTEGER NOT NULL, seen_at INTEGER NOT NULL,
    PRIMARY KEY (store, reason, key)
) WITHOUT ROWID;
CREATE INDEX row_marks_seen ON row_marks (store, seen_at);
CREATE TABLE propagations (
    task_id TEXT, stopped_at INTEGER, pool TEXT NOT NULL, seconds REAL NOT NULL,
    last_sign INTEGER NOT NULL, observed_at INTEGER NOT NULL, counted INTEGER NOT NULL,
    source TEXT NOT NULL, PRIMARY KEY (task_id, stopped_at)
) WITHOUT ROWID;
CREATE INDEX propagations_observed ON propagations (observed_at);
CREATE TABLE open_tasks (
    task_id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leases (
    task_id TEXT NOT NULL, worker_id TEXT, acquired_at INTEGER, pool TEXT, heartbeat_at INTEGER,
    released_at INTEGER
);
CREATE INDEX leases_task ON leases (task_id);
"""
"""Instants are microseconds since the epoch, as everywhere; labels are JSON lists.

``propagations`` holds every observed sample: ``seconds`` as measured, ``counted`` 0 where it was
over before counting began (it is in no histogram, and measures the grace as well as any).
``source`` is ``observed`` for work that somebody wanted; a drill's samples are marked
``DRILL_SOURCE``, followed by a colon and the hop where one was broken on purpose.
"""

DRILL_SOURCE: Final = "drill"

_REMEDIES: Final = {
    sqlite3.SQLITE_NOTADB: "is damaged, or no SQLite file; {away}",
    sqlite3.SQLITE_CORRUPT: "is damaged; {away}",
    sqlite3.SQLITE_BUSY: "is locked by another program; close that one",
    sqlite3.SQLITE_LOCKED: "is locked by another program; close that one",
    sqlite3.SQLITE_FULL: "can't grow, its disk is full; free some space",
    sqlite3.SQLITE_READONLY: "is not writable; make it and its folder writable for this user",
    sqlite3.SQLITE_PERM: "is not writable; make it and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "can't be opened; its folder must exist and be writable for this user",
}
_MOVE_AWAY: Final = (
    "move it away, with its -wal and -shm files, and start again: "
    "the counters then begin at 0 and count from that moment on"
)


class StateFile:
    """An open state file that nobody else has open for writing; in memory where it has no path."""

    def __init__(self, connection: sqlite3.Connection, name: str, lock: int | None) -> None:
        self.connection = connection
        self.name = name
        self._lock = lock

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all of the block or, whatever goes wrong in it, nothing.

        Raises ``StateError`` where the file is at fault.
        """
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _state_error(self.name, error) from error
        except BaseException:
            self._roll_back()
            raise

    def close(self) -> None:
        """Close the file, then let others have it."""
        self.connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _roll_back(self) -> None:
        # Some faults (a full disk, for one) have rolled back already.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")


def open_state(path: str | Path | None) -> StateFile:
    """Return the state file, made if it is new, with the tables of this version.

    Raises ``StateError``, naming file and remedy, where the file is damaged, somebody else's,
    written by a newer version, not writable, or open in another process.
    """
    if path is None:
        name, lock = _IN_MEMORY, None
    else:
        # Two names of one file must meet at one lock.
        name = os.path.realpath(path)
        lock = _lock(name)
    try:
        connection = _connect(name)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
    return StateFile(connection, name, lock)


@contextmanager
def open_beside(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Yield the state file for one short transaction, whether or not somebody owns it.

    For rows that no owner keeps in memory: ``propagations`` alone. A file that is not there yet is
    made. Raises ``StateError`` as ``open_state`` does, but for the owner's sake.
    """
    name = os.path.realpath(path)
    is_there = Path(name).exists() and Path(name).stat().st_size > 0
    file = StateFile(_connect_beside(name), name, None) if is_there else open_state(name)
    try:
        with file.transaction() as connection:
            yield connection
    finally:
        file.close()


@contextmanager
def open_to_read(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Yield the state file as it is, whether or not somebody owns it; nothing can be written.

    Raises ``StateError`` as ``open_beside`` does; one that is not there is not made.
    """
    name = os.path.realpath(path)
    connection = _connect_beside(name)
    try:
        connection.execute("PRAGMA query_only = ON")
        yield connection
    except sqlite3.Error as error:
        raise _state_error(name, error) from error
    finally:
        connection.close()


def _connect_beside(name: str) -> sqlite3.Connection:
    address = f"file:{quote(name)}?mode=rw"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise _state_error(name, error) from error
    try:
        version = _version(connection, name)
    except sqlite3.Error as error:
        connection.close()
        raise _state_error(name, error) from error
    except StateError:
        connection.close()
        raise
    if version == 0:
        connection.close()
        raise StateError(f"state file {name}: is empty; start the exporter on it once")
    return connection


def _lock(name: str) -> int:
    # A lock of SQLite's own would shut out readers too. This one the kernel lifts with the
    # process, however it ends; the file stays, since removing it could let two owners in.
    try:
        lock = os.open(f"{name}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"state file {name}: can't be opened ({error.strerror}); "
            "its folder must exist and be writable for this user"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
    except BlockingIOError as error:
        owner = os.read(lock, 20).decode(errors="replace") or "unknown"
        os.close(lock)
        raise StateError(
            f"state file {name}: is in use by another orphanwatch (process {owner}); "
            "stop that one, or give this one a state_file of its own"
        ) from error
    except OSError as error:
        os.close(lock)
        raise StateError(
            f"state file {name}: can't be locked ({error.strerror}); put it on a local disk"
        ) from error
    return lock


def _connect(name: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise _state_error(name, error) from error
    try:
        version = _version(connection, name)
        # Where the file system can't share memory this stays a rollback journal: as safe.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if version == 0:
            _create(connection)
        elif connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise _damaged(name)
    except sqlite3.Error as error:
        connection.close()
        raise _state_error(name, error) from error
    except StateError:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, name: str) -> int:
    """Return the file's schema version, 0 where it is new; refuse what is not ours to write."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise StateError(
            f"state file {name}: is a database of something else; "
            "set state_file to a file of its own, which need not exist yet"
        )
    if version != SCHEMA_VERSION:
        raise StateError(
            f"state file {name}: has version {version}, and this orphanwatch reads version "
            f"{SCHEMA_VERSION}; run the orphanwatch that wrote it, or {_MOVE_AWAY}"
        )
    return SCHEMA_VERSION


def _create(connection: sqlite3.Connection) -> None:
    # One transaction: a start that is killed half way leaves an empty file, which is a new one.
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _damaged(name: str) -> StateError:
    return StateError(f"state file {name}: is damaged; {_MOVE_AWAY}")


def _state_error(name: str, error: sqlite3.Error) -> StateError:
    # Errors of the driver itself carry no code; the low byte is the kind of all others.
    code = getattr(error, "sqlite_errorcode", None)
    remedy = _REMEDIES.get(code & 0xFF) if code is not None else None
    if remedy is None:
        return StateError(
            f"state file {name}: can't be used ({error}); mend its disk or folder, or {_MOVE_AWAY}"
        )
    return StateError(f"state file {name}: {remedy.format(away=_MOVE_AWAY)}")
