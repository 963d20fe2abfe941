"""The product against the second opinion on PostgreSQL: the random stacks, in typed columns."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import second_opinion
from database_servers import PostgreSQL
from hypothesis import given, settings
from hypothesis import strategies as st
from second_opinion_rejects import rejected_bounds
from stack_server import StackServer, one_engine_a_store, typed_stacks
from stacks import AT, Stack
from test_second_opinion import (
    BRIEF,
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
from orphanwatch.exporter.stores.sql.dialect_postgresql import Postgresql

pytestmark = pytest.mark.servers

TYPES: Final = {
    "TEXT": ("text", "varchar(99)"),
    "INTEGER": ("bigint", "smallint", "numeric", "text"),
    "REAL": ("double precision", "numeric", "text"),
    "s": ("double precision", "numeric(20, 6)", "text"),
    "ms": ("bigint", "double precision", "numeric", "text"),
    "us": ("bigint", "double precision", "numeric(20)"),
    "ns": ("bigint", "numeric", "text"),
    "iso": ("text", "varchar(99)"),
    "stamp": ("timestamptz", "timestamptz(3)"),
    "wall": ("timestamp", "timestamp(3)"),
}


FEWER = settings(STEADY, max_examples=100)


@pytest.fixture(scope="module")
def server(postgresql: PostgreSQL) -> Iterator[StackServer]:
    """Return one database for all stacks, each read through the same engines."""
    with postgresql.new_database() as url, one_engine_a_store(Postgresql):
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
def test_every_number_agrees_on_postgresql(server: StackServer, stack: Stack, number: int) -> None:
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


@BRIEF
@given(stack=typed_stacks(), number=st.integers(0, 11))
def test_bad_rows_are_counted_once_on_postgresql(
    server: StackServer, stack: Stack, number: int
) -> None:
    """Each bad row that matters is counted, once, by its reason; no other row is."""
    product = product_document(server, stack, number)
    bounds = rejected_bounds(stack.readable(), stack.known_settings(), AT)
    for labels, value in samples_of(product, str(names.ROWS_REJECTED_TOTAL)).items():
        least, most = bounds.get((dict(labels)["store"], dict(labels)["reason"]), (0, 0))
        assert least <= value <= most, f"{labels}: {value} is not within {least} and {most}"
