"""Stamps written as text on servers: what is too old is ruled out unread, and nothing else is."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import (
    Connection,
    NullPool,
    Text,
    column,
    create_engine,
    select,
    table,
)
from test_sql_postgresql_instants import TEXTS, at_the_border

from orphanwatch.exporter.instants import instant_of_datetime
from orphanwatch.exporter.stores.sql.dialect_mysql import MySql
from orphanwatch.exporter.stores.sql.dialect_postgresql import Postgresql
from orphanwatch.exporter.stores.sql.dialect_server import ServerDialect

pytestmark = pytest.mark.servers

AT = datetime(2027, 3, 28, 0, 30, tzinfo=UTC)
"""An hour of this day is missing in Berlin."""

LAYOUTS = {
    "to the second in UTC": "{:%Y-%m-%dT%H:%M:%SZ}",
    "to the microsecond in UTC": "{:%Y-%m-%dT%H:%M:%S.%f}+00:00",
    "with a blank": "{:%Y-%m-%d %H:%M:%S}Z",
    "without a zone": "{:%Y-%m-%d %H:%M:%S.%f}",
    "to the minute": "{:%Y-%m-%dT%H:%M}",
    "to the hour": "{:%Y-%m-%dT%H}",
    "east": "{:%Y-%m-%dT%H:%M:%S}+05:30",
    "far east": "{:%Y-%m-%dT%H:%M:%S}+1400",
    "west": "{:%Y-%m-%dT%H:%M:%S}-03",
    "far west": "{:%Y-%m-%d %H:%M:%S}-11:00",
    "days": "{:%Y-%m-%d}",
}
STAMPS = {
    name: [form.format(AT + timedelta(minutes=step)) for step in range(-2880, 2880, 20)]
    for name, form in LAYOUTS.items()
}
CELLS = sorted({*(text for texts in STAMPS.values() for text in texts), *TEXTS})

KINDS: dict[str, tuple[str, ServerDialect, str]] = {
    "postgresql": ("postgresql_url", Postgresql(), "text"),
    "postgresql in English": ("postgresql_url", Postgresql(), 'varchar(99) COLLATE "en-x-icu"'),
    "mariadb": ("mariadb_url", MySql(), "varchar(99) COLLATE utf8mb4_general_ci"),
    "mariadb to the bit": ("mariadb_url", MySql(), "text COLLATE utf8mb4_bin"),
}


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def server(request: pytest.FixtureRequest) -> Iterator[tuple[ServerDialect, Connection, str]]:
    """Return a dialect, a connection to an empty database of its kind, and a type of text."""
    url, dialect, kind = request.param
    engine = create_engine(request.getfixturevalue(url), poolclass=NullPool)
    with engine.connect() as connection:
        yield dialect, connection, kind


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("sampled", LAYOUTS)
def test_no_stamp_of_any_layout_is_ruled_out(sampled: str, zone: str, server: Any) -> None:
    """Whatever layout the first cells have, a stamp of another is compared by what it states."""
    dialect, connection, kind = server
    stamps = written(connection, kind, CELLS)
    instants = dialect.instants(
        stamps.c.stamp, list(STAMPS[sampled]), ZoneInfo(zone), instant_of_datetime(AT)
    )
    states = {text: at_the_border(text, zone) for text in CELLS}
    for hours in (-13, -1.25, 0, 1, 14):
        at = instant_of_datetime(AT + timedelta(hours=hours))
        after = set(connection.execute(select(stamps.c.stamp).where(instants.after(at))).scalars())
        reached = set(
            connection.execute(select(stamps.c.stamp).where(instants.reaches(at))).scalars()
        )

        late = {
            text for text, stated in states.items() if stated is not None and stated > at
        } & set(sorted_by_day(CELLS))
        assert late - after == set()
        assert late - reached == set()
        assert {text for text in after if (states[text] or 0) <= at} == set()


def sorted_by_day(texts: list[str]) -> list[str]:
    """Return those that a column of stamps that begin with their day may hold."""
    return [text for text in texts if text[4:5] == "-" and text[7:8] == "-"]


def written(connection: Connection, kind: str, cells: list[str]) -> Any:
    """Return a table of one column of text that holds these cells."""
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE stamps (stamp {kind})")
    mark = [(cell,) for cell in cells]
    connection.exec_driver_sql("INSERT INTO stamps VALUES (%s)", mark)
    return table("stamps", column("stamp", Text()))


def evaluations(plan: Any) -> int:
    """Return how often a plan evaluated anything that stands for itself: here, read a stamp."""
    own = plan["Actual Loops"] if plan.get("Parent Relationship") == "SubPlan" else 0
    return int(own) + sum(evaluations(part) for part in plan.get("Plans", ()))


@pytest.mark.parametrize("layout", ["to the second in UTC", "without a zone", "west"])
@pytest.mark.parametrize("asked", ["after", "reaches"])
def test_a_day_of_stamps_is_not_read_for_its_last_minutes(
    asked: str, layout: str, postgresql_url: str
) -> None:
    """Of two days of stamps those of the last hour are read, by the server's own account."""
    with create_engine(postgresql_url, poolclass=NullPool).connect() as connection:
        cells = [
            LAYOUTS[layout].format(AT - timedelta(seconds=30 * step)) for step in range(2 * 2880)
        ]
        stamps = written(connection, "text", cells)
        at = instant_of_datetime(AT)
        instants = Postgresql().instants(stamps.c.stamp, list(cells[-50:]), UTC, at)
        offset = timedelta(hours=3) if layout == "west" else timedelta()
        since = instant_of_datetime(AT + offset - timedelta(minutes=20))
        statement = select(stamps.c.stamp).where(getattr(instants, asked)(since))
        asking = statement.compile(connection, compile_kwargs={"literal_binds": True})
        found = connection.execute(statement).all()
        (plans,) = connection.exec_driver_sql(
            "EXPLAIN (ANALYZE, FORMAT JSON) " + str(asking).replace("%%", "%").replace("%", "%%")
        ).one()

    assert len(found) == 40
    # A stamp is read twice where it is asked whether it can be read at all.
    assert 40 <= evaluations(plans[0]["Plan"]) <= 2 * 2 * 120
