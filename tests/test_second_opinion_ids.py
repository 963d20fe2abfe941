"""The product on disguised ids against the second opinion on bare ones: they must not differ.

Each store of a random stack writes its ids in a way of its own; its rule takes the disguise off.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import second_opinion
import stack_strategies
import yaml
from hypothesis import given, settings
from second_opinion_facts import id_or_none
from stacks import AT, STORES, Stack, write_stack
from test_second_opinion import STEADY, disagreements, orphan_disagreements

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.snapshot import snapshot_document, take_snapshot

Row = dict[str, Any]
Rewrite = Callable[[str, str, int], str]
"""From table, id and the number of its row to the id as it is written there."""

FEW = settings(STEADY, max_examples=60)
IDENTIFIED = ("tasks", "leases", "ledger")

AFFIXED: dict[str, Row] = {
    "gateway": {"strip_prefix": "req_"},
    "leases": {"strip_prefix": "[a-z]+:", "strip_suffix": ":[0-9]+"},
    "ledger": {"strip_prefix": "chatcmpl-|cmpl-", "strip_suffix": "-[0-9a-f]{8}", "uuid": True},
}
SPELLED: dict[str, Row] = {store: {"uuid": True} for store in AFFIXED}


def with_affixes(table: str, id_: str, number: int) -> str:
    """Return an id the way its store marks it."""
    if table == "tasks":
        return f"req_{id_}"
    if table == "leases":
        return f"{('job', 'task')[number % 2]}:{id_}:{number}"
    return f"{('chatcmpl', 'cmpl')[number % 2]}-{id_}-{number:08x}"


def with_spellings(table: str, id_: str, number: int) -> str:
    """Return a UUID in one of its spellings, another one in each row."""
    bare = id_.replace("-", "")
    forms = (id_, id_.upper(), bare, bare.upper(), f" {id_}", f"{bare} ")
    return forms[(number + len(table)) % len(forms)]


def rewritten(stack: Stack, rewrite: Rewrite, columns: tuple[str, ...] = ("task_id",)) -> Stack:
    """Return a stack with other ids; what is no id stays as it is."""
    rows = {
        table: [
            {
                name: rewrite(table, str(value), number)
                if table in IDENTIFIED and name in columns and id_or_none(value) is not None
                else value
                for name, value in row.items()
            }
            for number, row in enumerate(mine)
        ]
        for table, mine in stack.rows.items()
    }
    return replace(stack, rows=rows)


def as_uuid(_: str, id_: str, __: int) -> str:
    """Return a UUID that stands for an id, always the same."""
    return str(uuid5(NAMESPACE_URL, id_))


def product_document(stack: Stack, rules: dict[str, Row]) -> Row:
    """Return what the product says of a stack whose stores have rules."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_stack(stack, Path(folder))
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for store in document["stores"]:
            document["stores"][store] |= rules.get(store, {})
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        config = load_config(path)
        said: Row = snapshot_document(take_snapshot(config, instant_of_epoch(AT)), config)
    return said


def assert_agreement(bare: Stack, disguised: Stack, rules: dict[str, Row]) -> None:
    """Compare the product on the disguised stack with the opinion on the bare one."""
    product = product_document(disguised, rules)
    opinion = second_opinion.evaluate(bare.readable(), bare.known_settings(), AT)
    found = disagreements(product, opinion) + orphan_disagreements(product, opinion)
    assert not found, "\n".join(found)


@FEW
@given(stack_strategies.stacks())
def test_affixes_change_nothing(stack: Stack) -> None:
    """Prefixes and suffixes that a rule takes off leave every number as it is."""
    assert set(AFFIXED) <= set(STORES.values())
    assert_agreement(stack, rewritten(stack, with_affixes), AFFIXED)


@FEW
@given(stack_strategies.stacks())
def test_spellings_of_uuids_change_nothing(stack: Stack) -> None:
    """A store that writes one UUID now in this way, now in that, speaks of one task."""
    bare = rewritten(stack, as_uuid, ("task_id", "worker_id"))
    assert_agreement(bare, rewritten(bare, with_spellings), SPELLED)
