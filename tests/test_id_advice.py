"""From two samples of ids to the normalising that makes them join, or to nothing."""

from uuid import NAMESPACE_URL, uuid5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orphanwatch.exporter.id_advice import Advice, advise
from orphanwatch.exporter.id_disguises import is_telling
from orphanwatch.exporter.ids import NO_RULE, IdRule
from orphanwatch.exporter.names import StoreName

GATEWAY, LEASES, LEDGER = StoreName.GATEWAY, StoreName.LEASES, StoreName.LEDGER

STEADY = settings(max_examples=300, derandomize=True, deadline=None, database=None)

TRUE_IDS = tuple(str(uuid5(NAMESPACE_URL, f"task {number}")) for number in range(8))
WORDS = ("8fk3mz0q1c2v", "p0Zx81LmQw7t", "2b9YtRk4Jn6s", "Hd7c5Xw0Vb3e")


def disguised(ids: tuple[str, ...], form: str, first: int = 0) -> list[str]:
    """Return ids in a form: ``{id}`` stands for the id, ``{hex}`` for its bare hex digits.

    What else differs from id to id is counted from ``first`` on.
    """
    return [
        form.format(
            id=one,
            hex=one.replace("-", ""),
            upper=one.upper(),
            random8=f"{0xA0000000 + 7919 * number:08x}",
            number=1_760_000_000 + number,
        )
        for number, one in enumerate(ids, first)
    ]


def lines(advice: Advice | None) -> dict[str, object]:
    """Return what advice asks for, as one would write it into the config."""
    return {
        f"{store}.{key}": value
        for store, rule in (advice.rules if advice is not None else {}).items()
        for key, value in rule._asdict().items()
        if value
    }


@pytest.mark.parametrize(
    ("ids", "gateway", "ledger", "expected"),
    [
        pytest.param(
            TRUE_IDS, "{id}", "chatcmpl-{id}", {"ledger.strip_prefix": "chatcmpl-"},
            id="the engine puts the kind of call before the id",
        ),
        pytest.param(
            WORDS, "req_{id}", "{id}", {"gateway.strip_prefix": "req_"},
            id="the gateway marks its ids",
        ),
        pytest.param(
            TRUE_IDS, "{id}", "{id}-{random8}", {"ledger.strip_suffix": "-[0-9a-f]{8}"},
            id="vLLM appends eight random digits",
        ),
        pytest.param(
            TRUE_IDS, "{id}", "{id}_cache_hit{number}.5",
            {"ledger.strip_suffix": "_cache_hit[0-9.]+"},
            id="LiteLLM marks what its cache answered",
        ),
        pytest.param(
            WORDS, "{id}", "{id}:1", {"ledger.strip_suffix": ":[0-9]+"},
            id="a queue counts its first tries",
        ),
        pytest.param(
            TRUE_IDS, "{hex}", "{id}", {"gateway.uuid": True},
            id="nginx writes 32 digits without hyphens",
        ),
        pytest.param(
            TRUE_IDS, "{hex}", "{upper}", {"gateway.uuid": True, "ledger.uuid": True},
            id="neither side writes a UUID in the usual way",
        ),
        pytest.param(
            TRUE_IDS, "{hex}", "chatcmpl-{id}-{random8}",
            {
                "gateway.uuid": True,
                "ledger.strip_prefix": "chatcmpl-",
                "ledger.strip_suffix": "-[0-9a-f]{8}",
            },
            id="prefix, suffix and spelling at once",
        ),
        pytest.param(
            WORDS, "a.b+c/{id}", "{id}", {"gateway.strip_prefix": "a\\.b+c/".replace("+", "\\+")},
            id="what has a meaning in patterns is written as itself",
        ),
        pytest.param(
            WORDS, "/{id}", "{id}-", {"gateway.strip_prefix": "/", "ledger.strip_suffix": "-"},
            id="a delimiter at either end",
        ),
        pytest.param(
            TRUE_IDS[:1], "{id}", "cmpl-{id}", {"ledger.strip_prefix": "cmpl-"},
            id="one id is enough where it is long",
        ),
    ],
)  # fmt: skip
def test_the_simplest_rule_that_joins_all(
    ids: tuple[str, ...], gateway: str, ledger: str, expected: dict[str, object]
) -> None:
    """Each known disguise is taken off where it is worn, and nothing else is touched."""
    samples = {GATEWAY: disguised(ids, gateway), LEDGER: disguised(ids, ledger)}

    advice = advise(samples, {})

    assert lines(advice) == expected
    assert advice is not None
    assert advice.merged is None
    count = advice.joins[LEDGER, GATEWAY]
    assert (count.before, count.after, count.of) == (0, len(ids), len(ids))


@pytest.mark.parametrize(
    ("gateway", "ledger"),
    [
        pytest.param(TRUE_IDS, [f"msg_{word}" for word in WORDS], id="a provider's own ids"),
        pytest.param(["task-1", "task-2"], ["user-1", "user-2"], id="small numbers are in each"),
        pytest.param(["task-w1", "task-w2"], ["w1", "w2"], id="short words are a coincidence"),
        pytest.param(TRUE_IDS, [one[:8] for one in TRUE_IDS], id="ids that were cut off"),
        pytest.param(
            ["4c1f99a0b2-span00001"], ["4c1f99a0b2-span00002"], id="two spans of one trace"
        ),
        pytest.param(TRUE_IDS, [], id="nothing to compare with"),
        pytest.param(TRUE_IDS, TRUE_IDS, id="ids that join already"),
        pytest.param(
            [f"req-{number:032x}" for number in range(900)],
            [f"{number:032x}" for number in (5, *range(2000, 2900))],
            id="one in hundreds",
        ),
    ],
)
def test_nothing_is_proposed(gateway: list[str], ledger: list[str]) -> None:
    """Where nothing sure would come of it, nothing is said: a wrong rule is worse than none."""
    assert advise({GATEWAY: gateway, LEDGER: ledger}, {}) is None


def test_two_prefixes_in_one_store_are_one_pattern() -> None:
    """Chats and plain completions share a ledger: both are taken off."""
    chats, others = disguised(TRUE_IDS[:4], "chatcmpl-{id}"), disguised(TRUE_IDS[4:], "cmpl-{id}")

    advice = advise({GATEWAY: TRUE_IDS, LEDGER: [*chats, *others]}, {})

    assert lines(advice) == {"ledger.strip_prefix": "chatcmpl-|cmpl-"}


def test_two_suffixes_in_one_store_are_one_pattern() -> None:
    """An engine's random digits, and a cache's mark on some."""
    samples = {
        GATEWAY: TRUE_IDS,
        LEDGER: [
            *disguised(TRUE_IDS[:5], "{id}-{random8}"),
            *disguised(TRUE_IDS[5:], "{id}_cache_hit{number}"),
        ],
    }

    assert lines(advise(samples, {})) == {"ledger.strip_suffix": "-[0-9a-f]{8}|_cache_hit[0-9.]+"}


def test_all_three_stores_are_brought_to_one_spelling() -> None:
    """A rule that mends one join and breaks another is none: the three are looked at together."""
    samples = {
        GATEWAY: disguised(TRUE_IDS, "req_{id}"),
        LEASES: disguised(TRUE_IDS, "req_{id}"),
        LEDGER: TRUE_IDS,
    }

    advice = advise(samples, {})

    assert lines(advice) == {"gateway.strip_prefix": "req_", "leases.strip_prefix": "req_"}
    assert advice is not None
    assert set(advice.joins) == {(LEDGER, GATEWAY), (LEASES, LEDGER)}


def test_a_rule_that_would_merge_two_tasks_is_told_as_such() -> None:
    """Two tries of one task are two ids of the ledger: nobody but the operator can say."""
    tries = [f"{one}:{number}" for one in TRUE_IDS for number in (1, 2)]

    advice = advise({GATEWAY: TRUE_IDS, LEDGER: tries}, {})

    assert lines(advice) == {"ledger.strip_suffix": ":[0-9]+"}
    assert advice is not None
    assert advice.merged is not None
    first = min(TRUE_IDS)
    assert (advice.merged.store, advice.merged.ids) == (LEDGER, (f"{first}:1", f"{first}:2"))
    assert advice.merged.into == first


def test_two_spellings_of_one_uuid_are_not_merged() -> None:
    """A store that writes a UUID now in this way, now in that, speaks of one task."""
    samples = {
        GATEWAY: TRUE_IDS,
        LEDGER: [*disguised(TRUE_IDS, "x-{hex}"), *disguised(TRUE_IDS, "x-{upper}")],
    }

    advice = advise(samples, {})

    assert lines(advice) == {"ledger.strip_prefix": "x-", "ledger.uuid": True}
    assert advice is not None
    assert advice.merged is None
    count = advice.joins[LEDGER, GATEWAY]
    assert (count.before, count.after, count.of) == (0, 16, 16)


def test_what_is_safe_is_proposed_without_what_is_not() -> None:
    """The gateway's prefix comes off; the ledger's would make one id of two, and stays."""
    samples = {
        GATEWAY: disguised(TRUE_IDS, "req_{id}"),
        LEASES: TRUE_IDS,
        LEDGER: [*disguised(TRUE_IDS, "chatcmpl-{id}"), TRUE_IDS[0]],
    }

    advice = advise(samples, {})

    assert lines(advice) == {"gateway.strip_prefix": "req_"}
    assert advice is not None
    assert advice.merged is None


def test_a_rule_that_is_there_is_kept_where_it_serves() -> None:
    """Of two that join as many, the one in the config stands, and only the missing part is new."""
    samples = {
        GATEWAY: disguised(TRUE_IDS, "{hex}"),
        LEDGER: disguised(TRUE_IDS, "chatcmpl-{id}-{random8}"),
    }
    current = {GATEWAY: IdRule(uuid=True), LEDGER: IdRule(strip_prefix="chatcmpl-")}

    advice = advise(samples, current)

    assert advice is not None
    assert advice.rules == {LEDGER: IdRule("chatcmpl-", "-[0-9a-f]{8}")}


def test_a_rule_that_is_in_the_way_is_taken_out() -> None:
    """What a config strips from ids that would join by themselves is proposed to be left."""
    advice = advise(
        {GATEWAY: TRUE_IDS, LEDGER: TRUE_IDS}, {LEDGER: IdRule(strip_suffix="-[0-9a-f]+")}
    )

    assert advice is not None
    assert advice.rules == {LEDGER: NO_RULE}


def test_ids_of_which_nothing_is_left_do_not_join() -> None:
    """Two rules that take everything off leave nothing that could be equal."""
    everything = IdRule(strip_prefix=".*")

    advice = advise(
        {GATEWAY: TRUE_IDS, LEDGER: TRUE_IDS}, {GATEWAY: everything, LEDGER: everything}
    )

    assert advice is not None
    assert advice.rules == {GATEWAY: NO_RULE, LEDGER: NO_RULE}
    assert advice.joins[LEDGER, GATEWAY].before == 0


def test_a_store_of_thousands_is_looked_at_in_seconds() -> None:
    """What ``check`` hands over at most is no matter of minutes."""
    ids = tuple(str(uuid5(NAMESPACE_URL, f"task {number}")) for number in range(5_000))
    samples = {
        GATEWAY: disguised(ids, "{hex}"),
        LEASES: disguised(ids[:2_000], "req_{upper}"),
        LEDGER: disguised(ids, "chatcmpl-{id}-{random8}"),
    }

    advice = advise(samples, {})

    assert advice is not None
    assert advice.joins[LEDGER, GATEWAY].after == 5_000


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", True),
        ("8fk3mz0q1c2v", True),
        ("V1StGXR8_Z5jdHi6B-myT", True),
        ("123456789012", True),
        ("12345678", False),
        ("2026-11-30", False),
        ("worker-1", False),
        ("chatcmpl", False),
        ("kLmNoPqRsTuVwXyZ", True),
        ("", False),
    ],
)
def test_what_can_be_no_coincidence(text: str, *, tells: bool) -> None:
    """An id tells if it is long enough that two of them are not equal by chance."""
    assert is_telling(text) is tells


# Random ids in random disguises

PREFIXES = st.sampled_from(["", "chatcmpl-", "cmpl-", "req_", "gw/", "team:blue:", "v1.", "x-y_"])
SUFFIXES = st.sampled_from(["", "-{random8}", "_cache_hit{number}", ":3", ".local"])
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
ID_LISTS = st.one_of(
    st.lists(st.uuids(version=4).map(str), min_size=1, max_size=12, unique=True),
    st.lists(st.text(ALPHABET, min_size=16, max_size=24), min_size=1, max_size=12, unique=True),
)


@st.composite
def forms(draw: st.DrawFn, *, are_uuids: bool) -> str:
    """Draw a disguise."""
    bodies = ("{id}", "{hex}", "{upper}") if are_uuids else ("{id}",)
    return draw(PREFIXES) + draw(st.sampled_from(bodies)) + draw(SUFFIXES)


@st.composite
def disguises(draw: st.DrawFn) -> dict[StoreName, list[str]]:
    """Draw true ids, and what three stores write for them."""
    ids = tuple(draw(ID_LISTS))
    form = forms(are_uuids="-" in ids[0])
    return {store: disguised(ids, draw(form)) for store in (GATEWAY, LEASES, LEDGER)}


@STEADY
@given(disguises())
def test_whatever_the_disguise_the_advice_joins_all(samples: dict[StoreName, list[str]]) -> None:
    """Once the advice is followed, the three stores speak of the same tasks."""
    advice = advise(samples, {})

    rules = advice.rules if advice is not None else {}
    bared = [
        {rules.get(store, NO_RULE).apply(one) for one in ids} for store, ids in samples.items()
    ]
    assert bared[0] == bared[1] == bared[2]
    assert advice is None or advice.merged is None
    assert len(bared[0]) == len(samples[GATEWAY])


@STEADY
@given(ID_LISTS, st.data())
def test_unrelated_ids_are_left_alone(ids: list[str], data: st.DataObject) -> None:
    """Ids of different things are not talked into being the same, whatever they wear."""
    form = forms(are_uuids="-" in ids[0])
    middle = len(ids) // 2
    samples = {
        GATEWAY: disguised(tuple(ids[:middle]), data.draw(form)),
        LEDGER: disguised(tuple(ids[middle:]), data.draw(form), first=middle),
    }

    assert advise(samples, {}) is None
