"""A store's own spelling of task ids, taken off within SQL, on each kind of database."""

from pathlib import Path
from typing import Any

import pytest
from sql_tables import typed
from stack_file import StackFile, assert_reads, charge, lease, rejections, store_problem, task

UUID = "6f2c1d9e-0000-4000-8000-00000000abcd"

RULES = [
    # the rule, how the store spells the id, the id
    pytest.param({"strip_prefix": "chatcmpl-"}, "chatcmpl-7f3a", "7f3a", id="a prefix"),
    pytest.param({"strip_prefix": "chatcmpl-"}, "7f3a", "7f3a", id="a prefix that is not there"),
    pytest.param({"strip_suffix": "-r1"}, "7f3a-r1", "7f3a", id="a suffix"),
    pytest.param(
        {"strip_prefix": "chatcmpl-", "strip_suffix": "-[0-9a-f]{8}"},
        "chatcmpl-7f3a-0badcafe",
        "7f3a",
        id="a prefix and a pattern behind",
    ),
    pytest.param({"strip_prefix": "a|ab"}, "ac", "c", id="one of two"),
    pytest.param({"strip_prefix": "(?i:chatcmpl-)"}, "ChatCmpl-7f3a", "7f3a", id="in any case"),
    pytest.param(
        {"strip_prefix": "(?i:req[a-f]?)-", "strip_suffix": r"_(?i:r(?-i:x)\d|z)"},
        "REQB-7f3a_Rx4",
        "7f3a",
        id="parts in any case",
    ),
    pytest.param({"strip_prefix": "(?i:a)b"}, "AB7f3a", "AB7f3a", id="a part in its own case"),
    pytest.param({"uuid": True}, UUID.replace("-", "").upper(), UUID, id="a bare UUID in capitals"),
    pytest.param({"uuid": True}, "no-uuid", "no-uuid", id="no UUID"),
    pytest.param(
        {"strip_prefix": "call_", "uuid": True},
        "call_" + UUID.replace("-", ""),
        UUID,
        id="a prefix and a bare UUID",
    ),
]  # fmt: skip

JOINED: dict[str, float | str | None] = {
    "orphan_token_delta": 10,
    "orphan_leases": 1,
    "orphan_unmatched_tokens key=unknown": 5,
}


def spelled(
    folder: Path, rule: dict[str, Any], store: str, ids: tuple[str, str], **more: Any
) -> StackFile:
    """Return a stack with one orphan whose id one of the stores spells in its own way."""
    theirs, plain = ids
    of = dict.fromkeys(("gateway", "leases", "ledger"), plain) | {store: theirs}
    stack = StackFile(folder, stores={store: rule}, **more)
    stack.add("tasks", task(of["gateway"], cancelled_at=3))
    stack.add("leases", lease(of["leases"], heartbeat_at=30))
    stack.add("ledger", charge(of["ledger"], 10, 20, started_at=10), charge("x" + plain, 5, 20))
    return stack


@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
@pytest.mark.parametrize("store", ["gateway", "leases", "ledger"])
@pytest.mark.parametrize(("rule", "theirs", "plain"), RULES)
def test_a_rule_makes_ids_join(  # noqa: PLR0917  (one table test)
    rule: dict[str, Any], theirs: str, plain: str, store: str, shape: str, tmp_path: Path
) -> None:
    """Whichever store spells ids in its own way, once its rule is told they join, and no others."""
    stack = spelled(tmp_path, rule, store, (theirs, plain))
    ledger = {"shape": shape} | (rule if store == "ledger" else {})
    stack.configure(stores={store: rule, "ledger": ledger})

    document = stack.document(30)

    assert_reads(document, JOINED)
    assert [orphan["task_id"] for orphan in document["orphans"]] == [plain]


@pytest.mark.servers
@pytest.mark.parametrize(("rule", "theirs", "plain"), RULES)
def test_postgresql_takes_it_off_too(
    rule: dict[str, Any], theirs: str, plain: str, postgresql_url: str, tmp_path: Path
) -> None:
    """The server's own patterns leave the same."""
    tables = typed("double precision")
    stack = spelled(tmp_path, rule, "ledger", (theirs, plain), tables=tables, url=postgresql_url)

    assert_reads(stack.document(30), JOINED)


@pytest.mark.servers
@pytest.mark.parametrize(("rule", "theirs", "plain"), RULES)
def test_mariadb_takes_it_off_too(
    rule: dict[str, Any], theirs: str, plain: str, mariadb_url: str, tmp_path: Path
) -> None:
    """The server's own patterns leave the same."""
    tables = typed("double")
    stack = spelled(tmp_path, rule, "ledger", (theirs, plain), tables=tables, url=mariadb_url)

    assert_reads(stack.document(30), JOINED)


@pytest.mark.servers
@pytest.mark.parametrize("key", ["strip_prefix", "strip_suffix"])
def test_a_pattern_that_postgresql_does_not_know_is_told(
    key: str, postgresql_url: str, tmp_path: Path
) -> None:
    """What only Python's patterns can say costs the store, and the remedy names the keys."""
    rule, tables = {key: "(?P<part>a)"}, typed("double precision")
    stack = spelled(tmp_path, rule, "ledger", ("a7", "7"), tables=tables, url=postgresql_url)

    assert store_problem(stack.evaluate(30), "ledger") == (
        "invalid regular expression: quantifier operand invalid; "
        "write strip_prefix and strip_suffix with what PostgreSQL's regular expressions know"
    )


def test_an_id_of_which_nothing_is_left_is_none(tmp_path: Path) -> None:
    """A charge whose whole id is taken off is one without an id."""
    stack = StackFile(tmp_path, stores={"ledger": {"strip_prefix": ".*"}})
    stack.add("ledger", charge("a", 10, 20))

    assert_reads(stack.document(30), {"orphan_unmatched_tokens key=empty": 10})


def test_rows_that_the_rule_makes_one_id_are_counted_as_doubled(tmp_path: Path) -> None:
    """Two gateway rows of one task are two, however unique the column is as it is stored."""
    stack = StackFile(tmp_path, stores={"gateway": {"strip_suffix": "-[0-9]"}})
    stack.run_sql("CREATE UNIQUE INDEX u ON tasks (task_id)")
    stack.add("tasks", task("a-1", cancelled_at=3), task("a-2", submitted_at=1))

    assert rejections(stack.document(30)) == {"gateway duplicate_task_id": 1}
