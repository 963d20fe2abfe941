"""Fixtures that hand out real databases: one server of each kind, an empty database per test."""

import gc
from collections.abc import Iterator

import pytest
from database_servers import (
    MariaDB,
    PostgreSQL,
    RedisServer,
    running_mariadb,
    running_postgresql,
    running_redis,
)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from what stays to the end: thousands of tests and modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """Return the PostgreSQL of this run; it starts with the first test that wants it."""
    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> Iterator[str]:
    """Return the SQLAlchemy URL of an empty PostgreSQL database for this test alone."""
    with postgresql.new_database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """Return the MariaDB of this run; it starts with the first test that wants it."""
    with running_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture
def mariadb_url(mariadb: MariaDB) -> Iterator[str]:
    """Return the SQLAlchemy URL of an empty MariaDB database for this test alone."""
    with mariadb.new_database() as url:
        yield url


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Return the Redis of this run; it starts with the first test that wants it."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Return the URL of an empty Redis database for this test alone."""
    return redis_server.new_database()
