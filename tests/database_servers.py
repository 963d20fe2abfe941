"""Real databases for tests: PostgreSQL, MariaDB and Redis, fresh and on ports of their own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis
from redis.exceptions import RedisError
from servers import Server, program, started
from sqlalchemy import Engine, NullPool, create_engine, make_url, text

GUARDED_USER = "guarded"
GUARDED_PASSWORD = "correct horse/battery@staple"  # noqa: S105  (a made-up one, awkward in a URL)

REDIS_DATABASES = 1024

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes: three test processes have two servers each, of some hundred megabytes at the most."""


def guarded(url: str, *, password: str = GUARDED_PASSWORD) -> str:
    """Return the URL of the same database for the user who needs a password and may only read."""
    parts = make_url(url).set(username=GUARDED_USER, password=password)
    return parts.render_as_string(hide_password=False)


class SqlServer(Server):
    """A server of SQL databases: ``url`` is its first database, ``new_database`` gives more."""

    driver: str
    admin: str
    maintenance: str
    """A database that is always there."""
    drop: str

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(folder)
        self.home = home
        self._numbers = count(1)
        self._first = ""

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of a database that was empty at first; its user may do everything."""
        return self._url(self._first)

    @abstractmethod
    def lay_out(self) -> None:
        """Write the files of an empty server into ``home``."""

    def set_up(self) -> None:
        """Make the first database, and what else a server that has just begun needs."""
        self._first = self.create_database()

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Yield the URL of an empty database that is dropped when the block ends."""
        self.start()
        name = self.create_database()
        try:
            yield self._url(name)
        finally:
            self.start()  # a test may have left it stopped
            self.execute(self.drop.format(name=name))

    def execute(self, *statements: str) -> None:
        """Run statements as the user who may do everything, each committed at once."""
        with self._maintaining.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    @cached_property
    def _maintaining(self) -> Engine:
        return create_engine(
            self._url(self.maintenance), isolation_level="AUTOCOMMIT", poolclass=NullPool
        )

    def _url(self, database: str) -> str:
        return f"{self.driver}://{self.admin}@127.0.0.1:{self.port}/{database}"

    def _run_once(self, command: list[str]) -> None:
        done = subprocess.run(
            self.as_its_user(command), cwd=self.home, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.fail(f"{command[0]} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


class PostgreSQL(SqlServer):
    """PostgreSQL: the loopback is trusted, but for ``GUARDED_USER``."""

    name = "PostgreSQL"
    user = "postgres"
    stop_signal = signal.SIGINT  # fast: SIGTERM would wait for the clients to leave
    driver = "postgresql+psycopg"
    admin = "postgres"
    maintenance = "postgres"
    drop = "DROP DATABASE {name} WITH (FORCE)"

    def lay_out(self) -> None:
        """Write an empty cluster."""
        command = [program("initdb"), f"--pgdata={self.home / 'data'}", "--username=postgres"]
        command += ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-sync"]
        self._run_once(command)
        access = self.home / "data" / "pg_hba.conf"
        access.write_text(
            f"local all all trust\n"
            f"host all {GUARDED_USER} 127.0.0.1/32 scram-sha-256\n"
            f"host all all 127.0.0.1/32 trust\n"
        )

    def set_up(self) -> None:
        """Add the user who needs a password and may read everything."""
        super().set_up()
        self.execute(
            f"CREATE ROLE {GUARDED_USER} LOGIN PASSWORD '{GUARDED_PASSWORD}'",
            f"GRANT pg_read_all_data TO {GUARDED_USER}",
        )

    def command(self) -> list[str]:
        """Return the command that serves this cluster."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.home,
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "shared_buffers": "32MB",
        }
        words = [f"-c{key}={value}" for key, value in settings.items()]
        return [program("postgres"), "-D", str(self.home / "data"), *words]

    def is_ready(self) -> bool:
        """Read it from the server's own note: the eighth line is its state."""
        lines = (self.home / "data" / "postmaster.pid").read_text().splitlines()
        return len(lines) >= 8 and lines[7].strip() == "ready"


class MariaDB(SqlServer):
    """MariaDB: the user ``tests`` needs no password, ``GUARDED_USER`` does."""

    name = "MariaDB"
    user = "mysql"
    driver = "mysql+pymysql"
    admin = "tests"
    maintenance = "mysql"
    # A test that leaves a transaction open fails here; without a limit it would hang for a day.
    drop = "SET STATEMENT lock_wait_timeout=5 FOR DROP DATABASE {name}"

    def lay_out(self) -> None:
        """Write an empty data directory, and the users that each start makes sure of."""
        command = [program("mariadb-install-db"), "--no-defaults", f"--datadir={self.home}/data"]
        command += ["--skip-test-db", "--auth-root-authentication-method=normal"]
        self._run_once([*command, *self._quick()])
        (self.home / "users.sql").write_text(
            "CREATE USER IF NOT EXISTS 'tests'@'127.0.0.1';\n"
            "GRANT ALL ON *.* TO 'tests'@'127.0.0.1' WITH GRANT OPTION;\n"
            f"CREATE USER IF NOT EXISTS '{GUARDED_USER}'@'127.0.0.1'"
            f" IDENTIFIED BY '{GUARDED_PASSWORD}';\n"
            f"GRANT SELECT ON *.* TO '{GUARDED_USER}'@'127.0.0.1';\n"
        )

    def command(self) -> list[str]:
        """Return the command that serves this data directory."""
        command = [program("mariadbd"), "--no-defaults", f"--datadir={self.home}/data"]
        command += [f"--socket={self.home}/socket", f"--pid-file={self.home}/pid"]
        command += ["--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"]
        command += [f"--init-file={self.home}/users.sql", *self._quick()]
        return command

    def is_ready(self) -> bool:
        """Connect to its own socket, which it opens after the port."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.home / "socket"))
        return True

    def _quick(self) -> list[str]:
        # Nothing here must outlive a power cut.
        words = [
            f"--tmpdir={self.home}",
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--sync-frm=0",
        ]
        words += ["--innodb-flush-method=nosync", "--innodb-log-file-size=8M"]
        return [*words, "--innodb-buffer-pool-size=16M", "--innodb-fast-shutdown=1"]


class RedisServer(Server):
    """Redis that keeps nothing: a stop empties it."""

    name = "Redis"

    def __init__(self, folder: Path, password: str | None = None) -> None:
        super().__init__(folder)
        self.password = password
        self._numbers = count(1)

    @property
    def url(self) -> str:
        """The URL of database 0, with the password where it has one."""
        return self._url(0)

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        self.start()
        url = self._url(next(self._numbers) % REDIS_DATABASES)
        with Redis.from_url(url) as client:
            client.flushdb()
        return url

    def command(self) -> list[str]:
        """Return the command that serves from memory only."""
        command = [program("redis-server"), "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self.folder)]
        command += ["--databases", str(REDIS_DATABASES)]
        return command + (["--requirepass", self.password] if self.password else [])

    def is_ready(self) -> bool:
        """Ask who answers on the port."""
        try:
            with Redis.from_url(self.url, socket_timeout=5) as client:
                answers: int = client.info("server")["process_id"]
        except RedisError:
            return False
        return self.process is not None and answers == self.process.pid

    def _url(self, database: int) -> str:
        credentials = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{credentials}127.0.0.1:{self.port}/{database}"


def _memory() -> Path | None:
    """Return the file system in memory, where there is one with room for a few servers."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free > ROOM else None


@contextmanager
def _home_of(user: str) -> Iterator[Path]:
    """Yield an empty folder which the user can reach; as root, pytest's own are root's alone."""
    home = Path(tempfile.mkdtemp(prefix=f"orphanwatch-{user}-", dir=_memory()))
    try:
        if os.geteuid() == 0:
            entry = pwd.getpwnam(user)
            os.chown(home, entry.pw_uid, entry.pw_gid)
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def running_postgresql(folder: Path) -> Iterator[PostgreSQL]:
    """Run PostgreSQL until the block ends; its logs go to the folder."""
    program("postgres")
    with _home_of(PostgreSQL.user) as home:
        server = PostgreSQL(folder, home)
        server.lay_out()
        with started(server):
            server.set_up()
            yield server


@contextmanager
def running_mariadb(folder: Path) -> Iterator[MariaDB]:
    """Run MariaDB until the block ends; its logs go to the folder."""
    program("mariadbd")
    with _home_of(MariaDB.user) as home:
        server = MariaDB(folder, home)
        server.lay_out()
        with started(server):
            server.set_up()
            yield server


@contextmanager
def running_redis(folder: Path, *, password: str | None = None) -> Iterator[RedisServer]:
    """Run Redis until the block ends; its logs go to the folder."""
    with started(RedisServer(folder, password)) as server:
        yield server
