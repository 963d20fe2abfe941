"""When overflow may be admitted: by one evaluation, and by what closed it before."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import made_up_boards as made_up
import pytest

from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.gate import NO_OVERFLOW_POOL, Closings, Gate, gate_of, keeps_its_past
from orphanwatch.exporter.gate_page import GatePage
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Evaluation, Finding
from orphanwatch.exporter.names import Action, Condition
from orphanwatch.exporter.web_response import Response

HOLD = 300
SQL = {"type": "sql", "url": "sqlite:///stack.db"}
LIST = {
    "type": "http_json",
    "url": "http://127.0.0.1:1/leases",
    "columns": {"task_id": "id", "worker_id": "worker"},
}


def config(*overflow: str, **changes: object) -> Config:
    """Return a config with overflow pools of these names, on SQL stores."""
    stores = {
        "gateway": SQL,
        "leases": changes.pop("leases", SQL),
        "ledger": {**SQL, "shape": "increments"},
        "queue": SQL,
    }
    pools = {"paid": {"role": "paid"}, **{name: {"role": "overflow"} for name in overflow}}
    return parse_config({"pools": pools, "stores": stores, **changes})


CALM = dict.fromkeys(Condition, Finding(holds=False, value=0.0, threshold=0.0))


def seen(
    second: float = 0,
    conditions: Mapping[Condition, Finding] = CALM,
    *,
    action: Action = Action.SCALE,
    sign: float | None = None,
    **others: Mapping[Condition, Finding],
) -> Evaluation:
    """Return an evaluation so many seconds on; ``sign`` is when there was last one."""
    return made_up.evaluation(
        action,
        "a reason",
        at=Instant(made_up.AT + round(second * SECOND)),
        conditions={"overflow": conditions, **others},
        last_evidence=None if sign is None else Instant(made_up.AT + round(sign * SECOND)),
    )


def judged(*evaluations: Evaluation, by: Config | None = None) -> Gate:
    """Return the gate after these evaluations, one after the other."""
    used, closings = by or config("overflow"), Closings()
    gates = [gate_of(each, used, closings.note(each, used)) for each in evaluations]
    return gates[-1]


def with_finding(condition: Condition, *, holds: bool | None) -> dict[Condition, Finding]:
    """Return calm conditions but for one."""
    return {**CALM, condition: Finding(holds=holds, value=2.0, threshold=1.0)}


CLOSED = with_finding(Condition.SECOND_DECODER, holds=True)


def every(step: int, *spans: tuple[int, int, Mapping[Condition, Finding]]) -> list[Evaluation]:
    """Return evaluations at each step of some spans of seconds, with the span's conditions."""
    return [
        seen(second, conditions)
        for start, end, conditions in spans
        for second in range(start, end + 1, step)
    ]


@pytest.mark.parametrize(
    ("evaluations", "is_open", "said"),
    [
        pytest.param([seen()], True, "no condition closes it", id="calm, from the first look on"),
        pytest.param([seen(0, CLOSED)], False, "decoded twice", id="a condition holds"),
        pytest.param(
            [seen(0, with_finding(Condition.RETRY_ID_MISSING, holds=None))],
            False,
            "unknown, which never opens: whether retries come without a stable retry id",
            id="a condition is unknown",
        ),
        pytest.param(
            [seen(sign=-20)],
            False,
            "the last sign of an orphan is 20s old, within the hold of 5m",
            id="a sign of an orphan within the hold, found in the stores after a start",
        ),
        pytest.param([seen(sign=-HOLD)], True, "", id="a sign as old as the hold"),
        pytest.param([seen(sign=0)], False, "0s old", id="an orphan lease that lives"),
        pytest.param(
            [seen(action=Action.SHED)],
            False,
            "the verdict is shed: a reason",
            id="orphan work in a pool that is not overflow",
        ),
        pytest.param(
            every(5, (0, 0, CLOSED), (5, 20, CALM)),
            False,
            "until 20s ago, within the hold of 5m",
            id="a condition that held 20 s ago",
        ),
        pytest.param(
            every(5, (0, 0, CLOSED), (5, HOLD - 5, CALM)), False, "", id="just before the hold ends"
        ),
        pytest.param(every(5, (0, 0, CLOSED), (5, HOLD, CALM)), True, "", id="as the hold ends"),
        pytest.param(
            every(5, (0, 0, CLOSED), (5, 200, CALM), (205, 205, CLOSED), (210, HOLD + 5, CALM)),
            False,
            "",
            id="a condition that comes and goes holds it anew",
        ),
        pytest.param(
            [seen(0), seen(31)],
            False,
            "nothing was known of it, until just now",
            id="half a minute without any evaluation",
        ),
    ],
)
def test_a_pool_is_open_only_where_that_is_proven(
    evaluations: list[Evaluation], *, is_open: bool, said: str
) -> None:
    """Whatever else is the case closes it, and is said."""
    gate = judged(*evaluations)
    assert (gate.is_open, gate.pools["overflow"].is_open) == (is_open, is_open)
    assert said in " / ".join(gate.reasons)


@pytest.mark.parametrize("condition", Condition)
@pytest.mark.parametrize("holds", [True, None])
def test_each_condition_closes_it(condition: Condition, *, holds: bool | None) -> None:
    """Known or unknown."""
    assert not judged(seen(0, with_finding(condition, holds=holds))).is_open


@pytest.mark.parametrize(
    ("leases", "second", "is_open"),
    [
        pytest.param(SQL, 0, True, id="stores that keep their past open at once"),
        pytest.param(LIST, 0, False, id="a list of what is now does not open at once"),
        pytest.param(LIST, HOLD - 5, False, id="nor before the hold has passed"),
        pytest.param(LIST, HOLD, True, id="but then"),
    ],
)
def test_after_a_start(leases: Mapping[str, object], second: int, *, is_open: bool) -> None:
    """What was before is known from rows, or not at all."""
    used = config("overflow", leases=leases)
    assert keeps_its_past(used) is (leases is SQL)
    assert judged(*every(5, (0, second, CALM)), by=used).is_open is is_open


def test_a_clock_that_was_set_back_does_not_close_it_for_as_long() -> None:
    """The hold begins at the present of the clock that counts now."""
    evaluations = [seen(86_400, CLOSED), *every(5, (0, HOLD, CALM))]
    assert judged(*evaluations).is_open
    assert not judged(*evaluations[:-1]).is_open


def test_a_clock_that_is_set_back_hides_what_was() -> None:
    """Rows stamped after the present that it shows are not read yet: the hold waits for them."""
    evaluations = [seen(600), *every(5, (0, HOLD, CALM))]
    assert judged(*evaluations).is_open
    assert not judged(*evaluations[:-1]).is_open


def test_a_pool_that_a_reload_brings_was_not_seen_before() -> None:
    """Where stores list only what is now, a pool of a new name is closed until the hold is over."""
    used, closings = config("overflow", leases=LIST), Closings()
    for second in range(0, HOLD + 5, 5):
        closed = closings.note(seen(second), used)
    assert gate_of(seen(HOLD), used, closed).is_open
    renamed = config("batch", leases=LIST)
    for second in range(HOLD + 5, 2 * HOLD + 10, 5):
        evaluation = replace(seen(second), conditions={"batch": CALM})
        gate = gate_of(evaluation, renamed, closings.note(evaluation, renamed))
        assert gate.is_open is (second == 2 * HOLD + 5)


def test_no_hold_opens_at_once() -> None:
    """``reopen_hold: 0s`` says that flapping is welcome."""
    assert judged(seen(0, CLOSED), seen(5), by=config("overflow", reopen_hold="0s")).is_open


def test_all_pools_are_open_or_the_gate_is_not() -> None:
    """Each has its own answer; the whole says what closes, and in which pool."""
    gate = judged(seen(batch=CLOSED), by=config("overflow", "batch"))
    assert not gate.is_open
    assert gate.pools["overflow"].is_open
    assert gate.reasons == ("pool batch: a request is decoded twice",)


def test_without_an_overflow_pool_there_is_nothing_to_admit_to() -> None:
    """An empty "all of them" must not open anything."""
    empty = made_up.evaluation(Action.SCALE, "a reason")
    gate = judged(empty, by=config())
    assert (gate.is_open, gate.reasons) == (False, (NO_OVERFLOW_POOL,))


def published(*evaluations: Evaluation, by: Config | None = None) -> Published:
    """Return what is on the board after these evaluations."""
    return made_up.published(evaluations[-1], gate=judged(*evaluations, by=by))


def answered(
    board: Published, query: str = "", *, by: Config | None = None, age: float = 2
) -> tuple[Response, dict[str, Any]]:
    """Return the response to one request, and its document."""
    at = board.last_evaluated_at or made_up.AT
    now = Instant(at + round(age * SECOND))
    response = GatePage(by or config("overflow")).answer(board, query, now)
    return response, json.loads(response.body)


def test_an_open_gate_says_all_of_its_evidence() -> None:
    """Verdict, every condition with value and threshold, and how old that is."""
    response, document = answered(published(seen()))
    assert (response.status, response.headers) == (200, ())
    assert (document["open"], document["verdict"], document["age_seconds"]) == (True, "scale", 2.0)
    conditions = document["pools"]["overflow"]["conditions"]
    assert set(conditions) == set(Condition)
    assert conditions["second_decoder"] == {
        "holds": False,
        "value": 0.0,
        "threshold": 0.0,
        "unit": "leases",
        "meaning": "a request is decoded twice",
    }


@pytest.mark.parametrize(
    ("board", "query", "said", "retry_after"),
    [
        pytest.param(published(seen(0, CLOSED)), "", "decoded twice", "298", id="a condition"),
        pytest.param(published(seen(sign=-100)), "", "the last sign", "198", id="the hold"),
        pytest.param(
            published(seen()), "pool=nowhere", "'nowhere' is no overflow pool", "5", id="no pool"
        ),
        pytest.param(published(seen()), "pool=paid", "'paid' is no overflow", "5", id="a paid one"),
        pytest.param(published(seen()), "pool=", "'' is no overflow pool", "5", id="an empty name"),
        pytest.param(
            published(seen()), "pool=overflow&pool=x", "2 pools are named", "5", id="two of them"
        ),
        pytest.param(
            made_up.published(None), "", "no current evaluation", "5", id="nothing evaluated yet"
        ),
        pytest.param(
            made_up.published(None, last_evaluated_at=made_up.AT),
            "pool=overflow",
            "no current evaluation",
            "5",
            id="an evaluation too old to be shown",
        ),
    ],
)
def test_whatever_can_not_be_told_is_closed(
    board: Published, query: str, said: str, retry_after: str
) -> None:
    """503, with the reason and when to ask again."""
    response, document = answered(board, query)
    assert (response.status, document["open"]) == (503, False)
    assert said in document["reasons"][0]
    assert dict(response.headers) == {"Retry-After": retry_after}


def test_one_pool_is_answered_for_itself() -> None:
    """Another pool's conditions don't close it."""
    by = config("overflow", "batch")
    board = published(seen(batch=CLOSED), by=by)
    response, document = answered(board, "pool=overflow&x=1", by=by)
    assert (response.status, list(document["pools"])) == (200, ["overflow"])
    assert answered(board, "pool=batch", by=by)[0].status == 503
    assert answered(board, "", by=by)[0].status == 503


def test_unknown_numbers_are_null() -> None:
    """Never zero."""
    conditions = {**CALM, Condition.NO_CANCEL_CHANNEL: Finding(holds=None)}
    document = answered(published(seen(0, conditions)))[1]
    found = document["pools"]["overflow"]["conditions"]["no_cancel_channel"]
    assert (found["holds"], found["value"], found["threshold"]) == (None, None, None)


def test_an_answer_is_made_once_for_what_is_published() -> None:
    """A thousand requests ask for the same object, and only the age is new."""
    page, board = GatePage(config("overflow")), published(seen())
    first = page.answer(board, "", made_up.AT)
    kept = page._answers.of(board)
    later = page.answer(board, "", Instant(made_up.AT + SECOND))
    assert page._answers.of(board) is kept
    assert json.loads(first.body) | {"age_seconds": 1.0} == json.loads(later.body)
