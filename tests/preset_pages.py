"""What a preset's page tells its reader to do, done on a real database: statements and configs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from documentation import DOCS, blocks, configs
from servers import wait_until
from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from stack_file import Document, read

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.snapshot import snapshot_document, take_snapshot

READER: Final = "orphanwatch"


def page_of(preset: str) -> str:
    """Return a preset's page."""
    return (DOCS / "presets" / f"{preset}.md").read_text(encoding="utf-8")


def configs_of(preset: str) -> list[str]:
    """Return the configs on a preset's page."""
    return configs(page_of(preset))


def statement_of(preset: str, beginning: str) -> str:
    """Return the one block of SQL on a preset's page that begins so."""
    [found] = [block for block in blocks(page_of(preset), "sql") if block.startswith(beginning)]
    return found


def plain_url(url: str) -> str:
    """Return the URL as people write it, without SQLAlchemy's name of the driver."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


class Database:
    """A database as its owner sees it: each statement is committed at once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: Engine = create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=NullPool, insertmanyvalues_page_size=1000
        )

    def run(self, *statements: str, **parameters: Any) -> None:
        """Run statements, with parameters where they name some."""
        with self._engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement.replace("::", "\\:\\:")), parameters)

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement), parameters)]

    def value(self, statement: str, **parameters: Any) -> Any:
        """Return the one cell of a statement's one row."""
        [[cell]] = self.rows(statement, **parameters)
        return cell

    def scans(self, table: str) -> tuple[int, int, int]:
        """Return how often a table was read whole, how often by index, and its inserted rows.

        The server counts them some moments late.
        """
        [counts] = self.rows(
            "SELECT seq_scan, idx_scan, n_tup_ins FROM pg_stat_user_tables WHERE relname = :table",
            table=table,
        )
        return counts[0], counts[1], counts[2]

    def times_read_whole(
        self, tables: Mapping[str, int], action: Callable[[], object]
    ) -> dict[str, int]:
        """Return how often each table was read whole while something was done.

        The numbers given are how many rows were inserted before.
        """
        wait_until(
            "the count of what went before",
            lambda: all(self.scans(table)[2] >= rows for table, rows in tables.items()),
            20,
        )
        before = {table: self.scans(table) for table in tables}
        action()
        wait_until(
            "the count of what was done",
            lambda: all(self.scans(table)[1] > before[table][1] for table in tables),
            20,
        )
        return {table: self.scans(table)[0] - before[table][0] for table in tables}


@contextmanager
def reader(database: Database, *grants: str) -> Iterator[str]:
    """Yield the URL of the page's role, made by the page's statements, until the block ends."""
    database.run(*(each for grant in grants for each in grant.split(";") if each.strip()))
    try:
        yield plain_url(
            make_url(database.url).set(username=READER).render_as_string(hide_password=False)
        )
    finally:
        database.run(f"DROP OWNED BY {READER}", f"DROP ROLE {READER}")


def write_config(folder: Path, config: str) -> Path:
    """Write a config into a folder, under the name that the commands of the tests use."""
    file = folder / "orphanwatch.yml"
    file.write_text(config, encoding="utf-8")
    return file


def evaluated(config_file: Path, **environ: str) -> Document:
    """Return one evaluation, now, as ``snapshot --format json`` prints it.

    Each store that the config names must be readable.
    """
    config = load_config(config_file, environ)
    document: Document = snapshot_document(take_snapshot(config, wall_clock()), config)
    ups = {
        store: read(document, f"orphan_store_up store={store}")
        for store in config.stores.configured()
    }
    assert set(ups.values()) == {1.0}, (ups, document["verdict"])
    return document


def pools_of(config: str) -> str:
    """Return the part of a config before its stores."""
    return config.partition("stores:")[0]
