"""A rule leaves the same of an id within a server's own SQL as anywhere else."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from sql_tables import typed
from stack_file import ZERO, StackFile, lease

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.stores.cells import clean_id
from orphanwatch.exporter.stores.questions import Windows

UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
HEX = UUID.replace("-", "")

STORED = [
    "chatcmpl-x", "x-chatcmpl-x", "cmpl-x", "chatcmpl-", "chatcmpl-None", "a\nchatcmpl-x",
    "chatcmpl-chatcmpl-x", "CHATCMPL-x", "x-0badcafe", "x-0BADCAFE", "x-0badcafe\n",
    "x-0badcafe-0badcafe", "x:1", "x:1:2", "x:1\n", "a.b", "a\\b", "é-0badcafe",
    UUID, HEX, UUID.upper(), HEX.upper(), f" {UUID}", f"{UUID} ", f" {HEX.upper()} ",
    f"  {UUID}", f"{UUID}\n", f"\n{UUID}", UUID.replace("f", "F"), f"{{{UUID}}}",
    f"urn:uuid:{UUID}", f"{HEX[:8]}-{HEX[8:]}", f"{HEX}0", f"x{UUID}",
    f"chatcmpl-{HEX}-0badcafe", f"chatcmpl-{UUID.upper()}", "ABC", "abc",
]  # fmt: skip
RULES = [
    IdRule("chatcmpl-|cmpl-"), IdRule("[A-Za-z]+-"), IdRule("(?:[a-z]+-)+"), IdRule(r"\w\."),
    IdRule(".*"), IdRule("", "-[0-9a-f]{8}"), IdRule("", ":[0-9]+"), IdRule("", ":[0-9]$"),
    IdRule("", ".{2}"), IdRule("", "x|1"), IdRule(uuid=True), IdRule("chatcmpl-", uuid=True),
    IdRule("chatcmpl-", "-[0-9a-f]{8}", uuid=True),
]  # fmt: skip


def ids_read(folder: Path, rule: IdRule, **place: object) -> Sequence[str | None]:
    """Return the ids of the stored leases as the store's rule leaves them, in their order."""
    stack = StackFile(
        folder,
        stores={"leases": rule._asdict(), "gateway": None, "ledger": None, "queue": None},
        **place,  # type: ignore[arg-type]  # a url and tables, or nothing
    )
    stack.add("leases", *(lease(id_, f"{number:03d}") for number, id_ in enumerate(STORED)))
    config = stack.config
    channels, windows = Channels(config), Windows.ending(instant_of_epoch(ZERO + 9), config)
    try:
        channels.begin(windows)
        leases = channels.leases.ask(lambda leases: leases.unreleased(windows))
        assert channels.leases.problem == ""
    finally:
        channels.end()
        channels.stop()
    assert leases is not None
    return [held.task_id for held in sorted(leases, key=lambda held: held.worker_id or "")]


def expected(rule: IdRule) -> list[str | None]:
    """Return what the rule itself leaves of them."""
    return [clean_id(rule.apply(id_)) for id_ in STORED]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_sqlite(rule: IdRule, tmp_path: Path) -> None:
    """SQLite calls the rule itself."""
    assert ids_read(tmp_path, rule) == expected(rule)


@pytest.mark.servers
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_postgresql(rule: IdRule, postgresql_url: str, tmp_path: Path) -> None:
    """PostgreSQL's patterns mean the same, to the last newline."""
    tables = typed("double precision")
    assert ids_read(tmp_path, rule, url=postgresql_url, tables=tables) == expected(rule)


@pytest.mark.servers
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_mariadb(rule: IdRule, mariadb_url: str, tmp_path: Path) -> None:
    """MariaDB's patterns mean the same, to the last newline."""
    tables = typed("double")
    assert ids_read(tmp_path, rule, url=mariadb_url, tables=tables) == expected(rule)
