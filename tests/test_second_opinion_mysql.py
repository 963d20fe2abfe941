"""The product against the second opinion on MariaDB: the random stacks, in typed columns."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import second_opinion
from database_servers import MariaDB
from hypothesis import given, settings
from hypothesis import strategies as st
from second_opinion_rejects import rejected_bounds
from stack_server import StackServer, one_engine_a_store, typed_stacks
from stacks import AT, Stack
from test_second_opinion import (
    STEADY,
    Row,
    disagreements,
    orphan_disagreements,
    samples_of,
)

from orphanwatch.exporter import names
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.snapshot import snapshot_document, take_snapshot
from orphanwatch.exporter.stores.sql.dialect_mysql import MySql

pytestmark = pytest.mark.servers

TYPES: Final = {
    "TEXT": ("text", "varchar(99)", "varchar(99) COLLATE utf8mb4_general_ci"),
    "INTEGER": ("bigint", "tinyint", "decimal(9)", "text"),
    "REAL": ("double", "decimal(20, 6)", "text"),
    "s": ("double", "decimal(20, 6)", "text"),
    "ms": ("bigint", "bigint unsigned", "double", "decimal(20)", "text"),
    "us": ("bigint", "double", "decimal(20)"),
    "ns": ("bigint", "decimal(20)", "text"),
    "iso": ("text", "varchar(99)"),
    "stamp": ("timestamp(6) NULL", "timestamp(3) NULL"),
    "wall": ("datetime(6)", "datetime(3)"),
}

FEWER: Final = settings(STEADY, max_examples=60)


@pytest.fixture(scope="module")
def server(mariadb: MariaDB) -> Iterator[StackServer]:
    """Return one database for all stacks, each read through the same engines."""
    with mariadb.new_database() as url, one_engine_a_store(MySql):
        server = StackServer(url, TYPES)
        yield server
        server.close()


def product_document(server: StackServer, stack: Stack, number: int) -> Row:
    """Return what the product says about a stack that is written into the server."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(server.write(stack, Path(folder), number))
        document: Row = snapshot_document(take_snapshot(config, instant_of_epoch(AT)), config)
    return document


@FEWER
@given(stack=typed_stacks(), number=st.integers(0, 11))
def test_every_number_agrees_on_mariadb(server: StackServer, stack: Stack, number: int) -> None:
    """Product and second opinion agree on every sample, orphan and verdict, as they do on SQLite.

    As the second opinion judges both, the two databases give equal results.
    """
    product = product_document(server, stack, number)
    opinion = second_opinion.evaluate(stack.readable(), stack.known_settings(), AT)
    found = disagreements(product, opinion) + orphan_disagreements(product, opinion)
    if "verdict" not in opinion["doubtful"]:
        mine, theirs = product["verdict"]["action"], opinion["verdict"]["action"]
        found += [] if mine == theirs else [f"action: {mine} is not {theirs}"]
    assert not found, "\n".join(found)


@FEWER
@given(stack=typed_stacks(), number=st.integers(0, 11))
def test_bad_rows_are_counted_once_on_mariadb(
    server: StackServer, stack: Stack, number: int
) -> None:
    """Each bad row that matters is counted, once, by its reason; no other row is."""
    product = product_document(server, stack, number)
    bounds = rejected_bounds(stack.readable(), stack.known_settings(), AT)
    for labels, value in samples_of(product, str(names.ROWS_REJECTED_TOTAL)).items():
        least, most = bounds.get((dict(labels)["store"], dict(labels)["reason"]), (0, 0))
        assert least <= value <= most, f"{labels}: {value} is not within {least} and {most}"
