"""What a store's rule makes of its ids: prefix, then suffix, then the spelling of a UUID."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_file import StackFile

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.ids import LONGEST, NO_RULE, IdRule, spell_uuid, uuid_spellings

UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
HEX = UUID.replace("-", "")

STEADY = settings(max_examples=200, derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize(
    ("rule", "stored", "id_"),
    [
        pytest.param(IdRule(), " chatcmpl-X ", " chatcmpl-X ", id="no rule touches nothing"),
        pytest.param(IdRule("chatcmpl-"), "chatcmpl-x", "x", id="a prefix is taken off"),
        pytest.param(IdRule("x-"), "x-x-1", "x-1", id="a prefix is taken off once"),
        pytest.param(IdRule("b"), "ab", "ab", id="a prefix is at the very beginning"),
        pytest.param(IdRule("b"), "a\nb", "a\nb", id="a line of its own is no beginning"),
        pytest.param(IdRule("chatcmpl-|cmpl-"), "cmpl-x", "x", id="one of several prefixes"),
        pytest.param(IdRule("a|b"), "xb", "xb", id="each of several prefixes is at the beginning"),
        pytest.param(IdRule("[a-z]+_"), "req_7", "7", id="a prefix is a pattern"),
        pytest.param(IdRule("(?i:REQ)_"), "req_7", "7", id="a pattern may have flags of its own"),
        pytest.param(
            IdRule("", "-[0-9a-f]{8}"), "x-0badcafe", "x", id="vLLM's suffix is taken off"
        ),
        pytest.param(
            IdRule("", "-[0-9a-f]{8}"), "x-0badcafe-y", "x-0badcafe-y",
            id="a suffix is at the very end",
        ),
        pytest.param(IdRule("", ":1"), "x:1:1", "x:1", id="a suffix is taken off once"),
        pytest.param(IdRule("", "-.*"), "a-b-c", "a", id="the longest end that matches goes"),
        pytest.param(
            IdRule("", "-x"), "a-x\n", "a-x\n", id="the end is no place before a newline"
        ),
        pytest.param(
            IdRule("", "-x$"), "a-x\n", "a-x\n", id="not even where the pattern says so"
        ),
        pytest.param(IdRule("", "-.*"), "a-b\nc", "a", id="a dot is any character"),
        pytest.param(IdRule("", "a|b"), "ax", "ax", id="each of several suffixes is at the end"),
        pytest.param(
            IdRule("a-", "-a"), "a-a", "a", id="the suffix is sought in what the prefix left"
        ),
        pytest.param(IdRule("chatcmpl-"), "chatcmpl-", "", id="of this one nothing is left"),
        pytest.param(IdRule(".*"), "x", "", id="a pattern that takes all leaves nothing"),
        pytest.param(
            IdRule("chatcmpl-", "-[0-9a-f]{8}", uuid=True), f"chatcmpl-{HEX}-0badcafe", UUID,
            id="prefix, suffix and spelling, in this order",
        ),
        pytest.param(
            IdRule("[0-9]+", "[0-9]+"), "1" * (LONGEST + 1), "1" * (LONGEST + 1),
            id="the patterns leave an endless id alone",
        ),
    ],
)  # fmt: skip
def test_what_a_rule_leaves(rule: IdRule, stored: str, id_: str) -> None:
    """A rule does exactly what its words say, in the order of its keys."""
    assert rule.apply(stored) == id_
    assert rule.is_set == (rule != NO_RULE)


@pytest.mark.parametrize(
    "stored",
    [UUID, HEX, UUID.upper(), HEX.upper(), f" {UUID}", f"{HEX} ", f" {HEX.upper()} "],
    ids=repr,
)
def test_the_spellings_of_a_uuid_are_one(stored: str) -> None:
    """Hyphens, case, and a blank before or after are no part of a UUID."""
    assert spell_uuid(stored) == UUID
    assert IdRule(uuid=True).apply(stored) == UUID
    assert stored in uuid_spellings(UUID)


@pytest.mark.parametrize(
    "stored",
    [
        "ABC", "abc", " x ", "", HEX[:-1], f"{HEX}0", f"x{UUID}", f"{UUID} {UUID}",
        f"chatcmpl-{UUID}", UUID.replace("-", "_"), UUID.replace("3", "\u0663"),
        UUID.replace("3", "g"), "12345678901234567890123456789012345", f"{HEX[:8]}-{HEX[8:]}",
        f"{{{UUID}}}", f"urn:uuid:{UUID}", f"  {UUID}", f"{UUID}\n", UUID.replace("f", "F"),
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_uuid_stays_as_it_is(stored: str) -> None:
    """Field case A10: ``ABC`` and ``abc`` stay two ids; a UUID in an odd dress is no UUID."""
    assert IdRule(uuid=True).apply(stored) == stored


@pytest.mark.parametrize("id_", ["ABC", "", " x", UUID, "0" * 8 + "-0000-0000-0000-" + "0" * 12])
def test_all_spellings_can_be_listed(id_: str) -> None:
    """What an index is asked for is all there is: each is a spelling, and none is there twice."""
    listed = uuid_spellings(id_)

    assert {spell_uuid(text) for text in listed} == {id_}
    assert len(set(listed)) == len(listed)
    assert uuid_spellings(UUID.upper()) == (), "nothing is ever spelled like this"


@STEADY
@given(st.text(max_size=60))
def test_a_rule_without_patterns_only_ever_touches_uuids(text: str) -> None:
    """Whatever clients choose for an id, it stays what it is."""
    assert NO_RULE.apply(text) == text
    assert IdRule(uuid=True).apply(text) == spell_uuid(text)


@STEADY
@given(st.uuids(), st.sampled_from(["", "chatcmpl-", "a b\n"]), st.sampled_from(["", "-x\n", "$"]))
def test_what_was_put_around_an_id_comes_off(uuid: object, before: str, after: str) -> None:
    """Literal affixes come off again, whatever characters they are of."""
    rule = IdRule(before.replace(" ", "[ ]"), after.replace("$", "[$]"), uuid=True)
    assert rule.apply(f"{before}{str(uuid).upper()}{after}") == str(uuid)


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[", "*", "(?i)chatcmpl-"])
@pytest.mark.parametrize("key", ["strip_prefix", "strip_suffix"])
def test_what_is_no_pattern_is_refused(key: str, pattern: str, tmp_path: Path) -> None:
    """A pattern that would fail at the first id is an error of the config, which names the key."""
    stack = StackFile(tmp_path, stores={"ledger": {key: pattern}})

    with pytest.raises(ConfigError, match=rf"stores\.ledger\.{key}: is no regular expression"):
        _ = stack.config
