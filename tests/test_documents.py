"""JSON documents read as rows: fields by their paths, rules, and the cells of each store."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from orphanwatch.exporter.config_stores import (
    HttpJsonLeaseStore,
    HttpJsonQueueStore,
    JsonlGatewayStore,
    JsonlLedgerStore,
)
from orphanwatch.exporter.document_fields import ABSENT, field_at, first_stated
from orphanwatch.exporter.document_rules import any_matches
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.documents import BadDocument, DocumentReader

Document = dict[str, Any]

END = 1_700_000_000
MICROS = END * 1_000_000


@pytest.mark.parametrize(
    ("path", "document", "found"),
    [
        pytest.param("a", {"a": 1}, 1, id="a key is its field"),
        pytest.param("a", {}, ABSENT, id="a key that is not there is absent"),
        pytest.param("a", {"a": None}, None, id="null is there"),
        pytest.param("a.b", {"a": {"b": 1}}, 1, id="a dot goes into an object"),
        pytest.param("a.b", {"a.b": 1, "a": {"b": 2}}, 1, id="a key with the dot goes first"),
        pytest.param("a.b.c", {"a.b": {"c": 1}, "a": {"b": {"c": 2}}}, 1, id="the longer key does"),
        pytest.param("a.b.c", {"a": {"b.c": 1}}, 1, id="a key with a dot may be within"),
        pytest.param("a.b.c", {"a.b": {}, "a": {"b": {"c": 1}}}, 1, id="a dead end is left again"),
        pytest.param("a.1.b", {"a": [{}, {"b": 1}]}, 1, id="a number counts within a list"),
        pytest.param("a.2", {"a": [1, 2]}, ABSENT, id="beyond a list there is nothing"),
        pytest.param("a.-1", {"a": [1, 2]}, ABSENT, id="a list is not counted from its end"),
        pytest.param("a.b", {"a": "text"}, ABSENT, id="within a text there is nothing"),
        pytest.param("a.b", {"a": None}, ABSENT, id="within null there is nothing"),
        pytest.param("", {"": 1}, 1, id="a key may be empty"),
    ],
)
def test_where_a_path_leads(path: str, document: Document, found: object) -> None:
    """Dots stand in keys and between them."""
    assert field_at(path)(document) == found


@pytest.mark.parametrize(
    ("document", "found"),
    [
        pytest.param({"a": 1, "b": 2}, 1, id="the first is"),
        pytest.param({"b": 2}, 2, id="where it is not there, the second is"),
        pytest.param({"a": "-", "b": 2}, 2, id="and where it is empty"),
        pytest.param({"a": "", "b": None}, None, id="of empty ones nothing is stated"),
        pytest.param({"c": 1}, ABSENT, id="where none is there it is absent"),
        pytest.param({"a": 0, "b": 1}, 0, id="zero is stated"),
    ],
)
def test_which_of_several_fields_counts(document: Document, found: object) -> None:
    """The first that says something."""
    assert first_stated(["a", "b"])(document) == found


@pytest.mark.parametrize(
    ("wanted", "value", "matches"),
    [
        pytest.param(499, 499, True, id="a number is matched by itself"),
        pytest.param(499, "499", True, id="and by its text"),
        pytest.param("499", 499.0, True, id="and the other way round"),
        pytest.param(499, 500, False, id="but by no other"),
        pytest.param("OK", "OK", True, id="a text is matched by itself"),
        pytest.param("OK", "ok", False, id="letter by letter"),
        pytest.param(True, True, True, id="true is true"),
        pytest.param(True, "true", True, id="and its text"),
        pytest.param(True, 1, False, id="but not 1"),
        pytest.param(1, True, False, id="nor 1 true"),
        pytest.param("", "", True, id="empty matches an empty text"),
        pytest.param("", "-", True, id="and a dash"),
        pytest.param("", None, True, id="and null"),
        pytest.param(None, "", True, id="so does null"),
        pytest.param("", 0, False, id="zero is not empty"),
        pytest.param("", "OK", False, id="a word is not empty"),
        pytest.param([408, 504], 504, True, id="one of a list matches"),
        pytest.param([408, 504], 500, False, id="none of a list does not"),
        pytest.param([], 500, False, id="an empty list matches nothing"),
        pytest.param("<500", 499, True, id="less is less"),
        pytest.param("<500", 500, False, id="the bound is not less"),
        pytest.param("<=500", "500", True, id="it may be told as text"),
        pytest.param(">= 400.5", 401, True, id="a bound may be a fraction"),
        pytest.param(">-1", 0, True, id="or below zero"),
        pytest.param("<500", "502, 200", False, id="what is no number compares with none"),
        pytest.param("<500", True, False, id="nor does a truth"),
        pytest.param("<500", "", False, id="nor does nothing"),
        pytest.param("<500", float("nan"), False, id="nor what is not a number"),
        pytest.param(["<200", ">=400"], 404, True, id="comparisons may stand in a list"),
        pytest.param({"has": ["DC", "DR"]}, "UH,DC", True, id="one is among the parts of a text"),
        pytest.param({"has": ["DC", "DR"]}, "UH, DR", True, id="with a blank or without"),
        pytest.param({"has": "DC"}, "DCX", False, id="a part is matched as a whole"),
        pytest.param({"has": "DC"}, ["UH", "DC"], True, id="or among those of a list"),
        pytest.param({"has": 504}, "502, 504", True, id="a part may be a number"),
        pytest.param({"has": "DC"}, "-", False, id="nothing has no parts"),
        pytest.param({"not": [200, 204]}, 500, True, id="not is none of a list"),
        pytest.param({"not": [200, 204]}, "204", False, id="not excludes each of a list"),
        pytest.param({"matches": "^/v1/"}, "/v1/chat", True, id="a pattern is found"),
        pytest.param({"matches": "^/v1/"}, "/health", False, id="or it is not"),
        pytest.param({"matches": "1"}, 1, False, id="a pattern is for texts"),
        pytest.param({"not": 1, "matches": "^/"}, "/a", True, id="all that is asked must hold"),
        pytest.param({"not": "/a", "matches": "^/"}, "/a", False, id="or it does not match"),
    ],
)
def test_what_a_rule_asks_of_a_field(wanted: Any, value: object, *, matches: bool) -> None:
    """Each way of asking, and twice: what was judged once is judged the same again."""
    test = any_matches([{"field": wanted}])

    assert [test({"field": value}), test({"field": value})] == [matches, matches]


@pytest.mark.parametrize("wanted", ["", None, 499, "<500", [1], {"not": 1}, {"has": "DC"}])
def test_a_field_that_is_not_there_matches_nothing(wanted: Any) -> None:
    """A log without the field must not look as if everything in it had been cancelled."""
    assert not any_matches([{"field": wanted}])({"other": 1})


def test_all_fields_of_a_rule_and_one_of_the_rules_must_match() -> None:
    """The rule of nginx's cancels, and that values are told apart by their kind."""
    test = any_matches([{"status": 499}, {"completion": "", "status": "<500"}])

    assert test({"status": "499", "completion": "OK"})
    assert test({"status": "200", "completion": ""})
    assert not test({"status": "502", "completion": ""})
    assert not test({"status": "200"})
    assert not any_matches([])({"status": 1})
    flags = any_matches([{"flag": 1}])
    assert [flags({"flag": flag}) for flag in (True, 1, 1.0, "1", [1])] == [
        *(False, True, True, True, False)
    ]
    many = any_matches([{"id": ">=3000"}])
    assert sum(many({"id": number}) for number in range(4000)) == 1000


GATEWAY = {
    "type": "jsonl",
    "path": "x",
    "columns": {"task_id": "id", "ended_at": "end", "duration": "took"},
    "cancelled_when": [{"status": 499}],
    "failed_when": [{"status": ">=500"}],
}


def gateway(**settings: Any) -> DocumentReader:
    """Return a reader of a gateway's documents; ``columns`` are added to those above."""
    columns = {**GATEWAY["columns"], **settings.pop("columns", {})}  # type: ignore[dict-item]  # a dict it is
    document = {**GATEWAY, **settings, "columns": {k: v for k, v in columns.items() if v}}
    return DocumentReader(StoreName.GATEWAY, JsonlGatewayStore.model_validate(document))


def cells(reader: DocumentReader, document: Document) -> Document:
    """Return what a document states, by column."""
    row = reader.row(document)
    assert row is not None
    return {name: cell for name, cell in zip(reader.columns, row, strict=True) if cell is not None}


DONE: Document = {"id": "t", "end": END, "took": 1.5, "status": 200}


@pytest.mark.parametrize(
    ("settings", "document", "expected"),
    [
        pytest.param(
            {}, {}, {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS},
            id="start and end are told by the end and the duration",
        ),
        pytest.param(
            {}, {"status": 499}, {"submitted_at": MICROS - 1_500_000, "cancelled_at": MICROS},
            id="the end of one that was cancelled is its cancel",
        ),
        pytest.param(
            {}, {"status": 502},
            {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS, "outcome": "error"},
            id="one that failed finished with an error",
        ),
        pytest.param(
            {}, {"took": "-"}, {"finished_at": MICROS}, id="without a duration no start is told"
        ),
        pytest.param(
            {"columns": {"started_at": "start", "ended_at": ""}, "duration_unit": "ms"},
            {"start": f"{END}", "took": "250"},
            {"submitted_at": MICROS, "finished_at": MICROS + 250_000},
            id="or by the start and the duration, in texts",
        ),
        pytest.param(
            {"columns": {"started_at": "start"}, "duration_unit": "ns"},
            {"start": "2023-11-14T22:13:19.5Z", "took": 99},
            {"submitted_at": MICROS - 500_000, "finished_at": MICROS},
            id="or by start and end, which go before the duration",
        ),
        pytest.param(
            {"columns": {"submitted_at": "asked"}}, {"asked": END - 9},
            {"submitted_at": MICROS - 9_000_000, "finished_at": MICROS},
            id="a submission of its own goes before the start",
        ),
        pytest.param(
            {"columns": {"cancelled_at": "gone"}}, {"gone": END - 1},
            {"submitted_at": MICROS - 1_500_000, "cancelled_at": MICROS - 1_000_000,
             "finished_at": MICROS},
            id="a cancel of its own stands beside the end",
        ),
        pytest.param(
            {"columns": {"deadline_after": "limit"}, "deadline_unit": "ms"}, {"limit": "30000"},
            {"submitted_at": MICROS - 1_500_000, "deadline_at": MICROS + 28_500_000,
             "finished_at": MICROS},
            id="a deadline counts from the start",
        ),
        pytest.param(
            {"columns": {"deadline_after": "limit"}}, {"limit": 0},
            {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS},
            id="no time at all is no limit",
        ),
        pytest.param(
            {"columns": {"deadline_after": "limit", "deadline_at": "due"}},
            {"limit": 9, "due": END + 1},
            {"submitted_at": MICROS - 1_500_000, "deadline_at": MICROS + 1_000_000,
             "finished_at": MICROS},
            id="a deadline of its own goes before one that is counted",
        ),
        pytest.param(
            {"timezone": "Europe/Berlin"}, {"end": "2023-11-14T23:13:20"},
            {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS},
            id="a stamp without a zone is in the store's",
        ),
        pytest.param(
            {"columns": {"outcome": "how"}}, {"how": "ok", "status": 500},
            {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS, "outcome": "ok"},
            id="an outcome of its own goes before the rule's",
        ),
        pytest.param(
            {"columns": {"attempt": "try", "pool": "pool", "cancellable": "stoppable"}},
            {"try": "2", "pool": "paid", "stoppable": False},
            {"submitted_at": MICROS - 1_500_000, "finished_at": MICROS, "attempt": 2,
             "pool": "paid", "cancellable": 0},
            id="numbers, words and flags are read",
        ),
    ],
)  # fmt: skip
def test_what_a_request_is(settings: Document, document: Document, expected: Document) -> None:
    """The cells that a gateway's document states, its id apart."""
    assert cells(gateway(**settings), {**DONE, **document}) == {"task_id": "t", **expected}


@pytest.mark.parametrize(
    ("value", "task_id"),
    [
        pytest.param("a b", "a b", id="a text is one, blanks included"),
        pytest.param(17, "17", id="a whole number is one"),
        pytest.param("", None, id="an empty text is none"),
        pytest.param("-", None, id="a dash is none"),
        pytest.param(None, None, id="null is none"),
        pytest.param("null", None, id="nor is its word"),
        pytest.param("  ", None, id="blanks are none"),
        pytest.param(1.5, None, id="a fraction is none"),
        pytest.param("a\0b", None, id="a text with a null character is none"),
    ],
)
def test_what_an_id_is(value: object, task_id: str | None) -> None:
    """What is no id joins nothing, and the row is there all the same."""
    row = gateway().row({**DONE, "id": value})

    assert row is not None
    assert row[0] == task_id


def test_ids_are_spelled_by_the_stores_own_rule() -> None:
    """As in every other store."""
    reader = gateway(strip_prefix="chatcmpl-", uuid=True)
    spelled = "chatcmpl-7F3A9C0D5E6B4C1D8F2A0B1C2D3E4F50"

    assert cells(reader, {**DONE, "id": spelled})["task_id"] == (
        "7f3a9c0d-5e6b-4c1d-8f2a-0b1c2d3e4f50"
    )
    assert "task_id" not in cells(reader, {**DONE, "id": "chatcmpl-"})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param({"id": ["t"]}, "invalid_record", id="an id that is a list"),
        pytest.param({"id": True}, "invalid_record", id="an id that is a truth"),
        pytest.param({"end": "soon"}, "invalid_instant", id="an end that is none"),
        pytest.param({"end": True}, "invalid_instant", id="an end that is a truth"),
        pytest.param({"end": {}}, "invalid_instant", id="an end that is an object"),
        pytest.param({"end": 10**400}, "invalid_instant", id="an end beyond all times"),
        pytest.param({"end": None}, "invalid_instant", id="no end, where a line is an end"),
        pytest.param({"took": "1m"}, "invalid_number", id="a duration that is no number"),
        pytest.param({"took": -1}, "invalid_number", id="a duration below zero"),
        pytest.param({"took": True}, "invalid_number", id="a duration that is a truth"),
        pytest.param({"took": 10**400}, "invalid_number", id="a duration beyond all numbers"),
        pytest.param({"took": 1e17}, "invalid_instant", id="a duration from before all times"),
        pytest.param({"try": "one"}, "invalid_number", id="an attempt that is no number"),
        pytest.param({"try": 1e18}, "invalid_number", id="an attempt that nobody counted to"),
    ],
)
def test_a_document_that_can_not_be_used(document: Document, reason: str) -> None:
    """It is refused for the reason under which it is to be counted."""
    with pytest.raises(BadDocument) as caught:
        gateway(columns={"attempt": "try"}).row({**DONE, **document})
    assert caught.value.reason == reason


@pytest.mark.parametrize("document", [[], "text", 1, None])
def test_what_is_no_object_can_not_be_used(document: object) -> None:
    """Nor does it tell any instant."""
    with pytest.raises(BadDocument, match="is no JSON object"):
        gateway().row(document)
    assert gateway().newest(document) is None


def test_only_documents_that_are_let_in_are_read() -> None:
    """Others are neither rows nor bad, whatever stands in them."""
    reader = gateway(where=[{"uri": {"matches": "^/v1/"}}])

    assert reader.row({**DONE, "uri": "/health", "end": "bad"}) is None
    assert reader.row(DONE) is None
    assert reader.row({**DONE, "uri": "/v1/chat"}) is not None


def test_a_request_that_runs_is_a_row_where_rows_are_live() -> None:
    """It has no end yet; one that was cancelled must say when."""
    reader = gateway(rows="live", columns={"started_at": "start"})

    assert cells(reader, {"id": "t", "start": END}) == {"task_id": "t", "submitted_at": MICROS}
    with pytest.raises(BadDocument, match="does not say when it ended"):
        reader.row({"id": "t", "start": END, "status": 499})


@pytest.mark.parametrize(
    ("document", "newest"),
    [
        pytest.param(DONE, MICROS, id="the end is"),
        pytest.param({**DONE, "gone": END + 1}, MICROS + 1_000_000, id="or a later cancel"),
        pytest.param({**DONE, "due": END + 9}, MICROS, id="a deadline is yet to come"),
        pytest.param({"start": END}, MICROS, id="or the start alone"),
        pytest.param({"start": END, "took": 2}, MICROS + 2_000_000, id="or what it tells"),
        pytest.param({"end": "bad", "start": END}, None, id="one that can't be read tells nothing"),
        pytest.param({}, None, id="nor does none"),
    ],
)
def test_the_newest_instant_of_a_document(document: Document, newest: int | None) -> None:
    """What has happened by the time it was written: it tells how old the document is."""
    columns = {"cancelled_at": "gone", "deadline_at": "due", "started_at": "start"}
    assert gateway(columns=columns).newest(document) == newest


LEDGER = {"type": "jsonl", "path": "x", "shape": "final"}
CHARGED = {"task_id": "id", "tokens": "n", "charged_at": "at"}


@pytest.mark.parametrize(
    ("columns", "document", "expected"),
    [
        pytest.param(
            CHARGED, {"n": "12", "at": END}, {"tokens": 12.0, "charged_at": MICROS},
            id="tokens may be a text",
        ),
        pytest.param(
            CHARGED, {"at": END}, {"charged_at": MICROS}, id="tokens that are missing are unknown"
        ),
        pytest.param(
            {"task_id": "id", "tokens": "n", "started_at": "at", "duration": "took"},
            {"n": 3, "at": END, "took": 2},
            {"tokens": 3.0, "started_at": MICROS, "charged_at": MICROS + 2_000_000},
            id="an end is the charge",
        ),
        pytest.param(
            {**CHARGED, "prompt_tokens": "p", "entry_id": "e"},
            {"n": 3, "at": END, "p": 1, "e": 7},
            {"tokens": 3.0, "charged_at": MICROS, "prompt_tokens": 1.0, "entry_id": "7"},
            id="prompt tokens and entries are read",
        ),
    ],
)  # fmt: skip
def test_what_a_charge_is(columns: Document, document: Document, expected: Document) -> None:
    """The cells that a ledger's document states, its id apart."""
    config = JsonlLedgerStore.model_validate({**LEDGER, "columns": columns})
    reader = DocumentReader(StoreName.LEDGER, config)

    assert cells(reader, {"id": "t", **document}) == {"task_id": "t", **expected}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param({"n": "many", "at": END}, "invalid_tokens", id="tokens that are no number"),
        pytest.param({"n": [1], "at": END}, "invalid_tokens", id="tokens that are a list"),
        pytest.param({"n": "NaN", "at": END}, "invalid_tokens", id="tokens that are not a number"),
        pytest.param({"n": 1}, "missing_instant", id="a charge at no time"),
    ],
)
def test_a_charge_that_can_not_be_used(document: Document, reason: str) -> None:
    """It is refused for the reason under which it is to be counted."""
    config = JsonlLedgerStore.model_validate({**LEDGER, "columns": CHARGED})
    with pytest.raises(BadDocument) as caught:
        DocumentReader(StoreName.LEDGER, config).row({"id": "t", **document})
    assert caught.value.reason == reason


def test_leases_and_queues_are_read_too() -> None:
    """The start of a lease is its acquisition, and a queue has numbers."""
    place = {"type": "http_json", "url": "http://engine.example.com/"}
    lease = HttpJsonLeaseStore.model_validate(
        {**place, "columns": {"task_id": "id", "worker_id": "w", "started_at": "since"}}
    )
    queue = HttpJsonQueueStore.model_validate(
        {**place, "columns": {"depth": "stats.waiting", "in_flight": "stats.running"}}
    )

    assert cells(
        DocumentReader(StoreName.LEASES, lease), {"id": 1, "w": "gpu-0", "since": END}
    ) == {"task_id": "1", "worker_id": "gpu-0", "acquired_at": MICROS}
    assert cells(
        DocumentReader(StoreName.QUEUE, queue), {"stats": {"waiting": 3, "running": "4"}}
    ) == {"depth": 3.0, "in_flight": 4.0}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        pytest.param(
            {"ended_at": "end"}, "no field for task_id; write for example columns: {task_id: req",
            id="no id",
        ),
        pytest.param(
            {"task_id": "id"}, "no field for ended_at; write for example columns: {ended_at: time}",
            id="no end, where a line is an end",
        ),
    ],
)  # fmt: skip
def test_settings_that_say_too_little_are_refused(columns: Document, said: str) -> None:
    """What is missing is named, with an example."""
    config = JsonlGatewayStore.model_validate({"type": "jsonl", "path": "x", "columns": columns})

    with pytest.raises(StoreError, match=re.escape(said)):
        DocumentReader(StoreName.GATEWAY, config)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(
            {"cancelled_when": [{}]}, "a rule names no field", id="a rule that matches everything"
        ),
        pytest.param(
            {"where": [{"uri": {"like": "x"}}]}, "uri: 'like' is none of has, not, matches",
            id="a way to ask that there is none of",
        ),
        pytest.param(
            {"where": [{"uri": {}}]}, "uri: write one of has", id="a field that nothing is asked of"
        ),
        pytest.param(
            {"where": [{"uri": {"matches": "("}}]}, "uri.matches: is no regular expression",
            id="a pattern that is none",
        ),
        pytest.param(
            {"columns": {"task_id": "id"}}, "cancelled_when: needs the end of a request",
            id="cancels at no time",
        ),
        pytest.param(
            {"columns": {"task_id": "id", "ended_at": "end", "deadline_after": "limit"}},
            "columns.deadline_after: counts from the start",
            id="a deadline that counts from nowhere",
        ),
        pytest.param({"columns": {"task_id": []}}, "at least 1 item", id="a column of no field"),
        pytest.param({"duration_unit": "min"}, "'s', 'ms', 'us' or 'ns'", id="an odd unit"),
    ],
)  # fmt: skip
def test_settings_that_can_not_work_are_refused(settings: Document, said: str) -> None:
    """At the border, with the remedy."""
    with pytest.raises(ValidationError) as caught:
        JsonlGatewayStore.model_validate({**GATEWAY, **settings})
    assert said in str(caught.value)


def test_fields_that_no_document_has_are_noted() -> None:
    """As long as there is none; a field that is there but empty states nothing."""
    reader = gateway(columns={"retry_id": "retry"}, where=[{"ours": True}])
    assert reader.notes() == ()
    reader.row({"id": "t"})
    assert reader.notes() == ("where: lets in none of the 1 records that were read",)
    reader.row({"id": "t", "end": END, "took": 1, "retry": "-", "ours": True})
    retry, cancels, failures = reader.notes()
    assert "states retry_id, as retry" in retry
    assert "has status: cancels that show in it are unseen" in cancels
    assert "has status: failures" in failures
    reader.row({**DONE, "retry": "r", "ours": True})
    assert reader.notes() == ()


def test_a_log_that_states_the_cancel_itself_states_an_end() -> None:
    """A column of its own for cancels needs no rule, and no other end."""
    config = JsonlGatewayStore.model_validate(
        {
            "type": "jsonl",
            "path": "gateway.log",
            "columns": {"task_id": "id", "cancelled_at": "cancel", "finished_at": "finish"},
        }
    )
    reader = DocumentReader(StoreName.GATEWAY, config)
    row = reader.row({"id": "t1", "cancel": 1_800_000_003})
    assert row is not None
    cells = dict(zip(reader.columns, row, strict=True))
    assert cells["cancelled_at"] == 1_800_000_003_000_000
    assert cells["finished_at"] is None
