"""The preset ``litellm``: ledger and gateway out of LiteLLM's spend log, as its versions have it.

Configs and role are those of its page; a client leaves at +10, so that the cutoff is +11.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from database_servers import PostgreSQL
from preset_pages import configs_of, pools_of
from spend_log import NOT_YET, SCHEMAS, SpendLog, call, spend_log
from stack_file import Document, Row, assert_reads, read

pytestmark = pytest.mark.servers

BEHIND_NGINX, ALONE, BY_ENGINE_ID = configs_of("litellm")


@pytest.fixture
def log(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[SpendLog]:
    """Return an empty spend log of today's version, behind nginx."""
    with spend_log(postgresql, tmp_path) as made:
        made.configure(BEHIND_NGINX)
        yield made


GONE: Final = {
    "client_disconnected": True,
    "error_information": {
        "error_code": "499",
        "error_class": "ClientDisconnected",
        "error_message": "Client disconnected the request",
    },
}
BROKEN: Final = {"error_information": {"error_code": "500", "error_class": "APIError"}}
NO_ERROR: Final = {"error_information": {"error_code": "", "error_class": "", "error_message": ""}}

RAN_ON: Final = 1200 * (31 - 11) / 31
"""Of 1,200 tokens decoded from +0 to +31, those past +11."""

NOTHING: Final = {"orphan_tokens_total": 0, "orphan_token_delta": 0}

ROWS: Final[dict[str, tuple[list[Row], Mapping[str, float | str | None]]]] = {
    "a call that ran on after its client left counts by its part past the cutoff": (
        [call("u1", 0, 31, metadata=NO_ERROR)],
        {
            "orphan_tokens_total basis=prorated": RAN_ON,
            "orphan_tokens_total basis=charged": 0,
            "orphan_token_delta": RAN_ON,
            "orphan_straddling_tokens_total": 1300,
            "action": "shed",
        },
    ),
    "metadata that is null says nothing, and the row counts": (
        [call("u1", 0, 31, metadata=None)],
        {"orphan_tokens_total": RAN_ON},
    ),
    "of a stream that LiteLLM ended with its client nothing is orphan, success or not": (
        [call("u1", 0, 10.05, 400, metadata=GONE)],
        {**NOTHING, "orphan_straddling_tokens_total": 0, "orphan_abandoned_tasks": 2},
    ),
    "a call that LiteLLM cancelled upstream failed with 499 and is no orphan either": (
        [call("u1", 0, 10.05, 0, status="failure", metadata=GONE)],
        NOTHING,
    ),
    "a call that failed without tokens after the cutoff charges nothing": (
        [call("u1", 12, 31, 0, status="failure", metadata=NO_ERROR)],
        {**NOTHING, "orphan_rows_rejected_total": 0},
    ),
    "tries of the router add up, and one begun after the cutoff is orphan in full": (
        [
            call("chatcmpl-1", 0, 5, 0, status="failure", litellm_call_id="u1"),
            call("chatcmpl-2", 12, 31, 500, litellm_call_id="u1"),
            call("chatcmpl-3", 0, 31, litellm_call_id="u1"),
        ],
        {
            "orphan_tokens_total basis=charged": 500,
            "orphan_tokens_total basis=prorated": RAN_ON,
        },
    ),
    "an answer out of the cache is no spend": (
        [
            call("u1_cache_hit1800000012.25", 12, 12.1, cache_hit="True", litellm_call_id="u1"),
            call("h1_cache_hit1799999970.5", -31, -30, cache_hit="True", litellm_call_id="h1"),
        ],
        {**NOTHING, "orphan_spend_tokens_per_second": 0},
    ),
    "a batch that is billed when somebody asks for it is nobody's spend": (
        [
            call("batch_7_batch_cost", -31, -30, 900_000, call_type="aretrieve_batch"),
            call("file-7", -31, -30, 900_000, call_type="acreate_file"),
        ],
        {"orphan_spend_tokens_per_second": 0},
    ),
    "a stored response that is read again is not charged again": (
        [call("resp_1", 20, 20.1, 400, call_type="aget_responses", litellm_call_id="u1")],
        NOTHING,
    ),
    "a row that lands late counts while the delta window still reaches it": (
        [call("late", -50, -30, 1300)],
        {"orphan_token_delta": 1200 * (-30 - -34) / 20},
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_each_kind_of_row_counts_as_what_it_is(case: str, log: SpendLog) -> None:
    """Behind nginx: the client of u1 left at +10, that of ``late`` at -35, that of h1 never."""
    rows, expected = ROWS[case]
    log.log("u1", 10, left=True)
    log.log("late", -35, start=-50, left=True)
    log.log("h1", 5)
    log.add(*rows)
    assert_reads(log.snapshot(), expected)


JOINING: Final = {
    "request_id is the call id": call("u1", 0, 31),
    "metadata has the call id": call("msg_9", 0, 31, metadata={"litellm_call_id": "u1"}),
    "a column has the call id": call("chatcmpl-9", 0, 31, litellm_call_id="u1"),
    "column and metadata both have it": call(
        "chatcmpl-9", 0, 31, litellm_call_id="u1", metadata={"litellm_call_id": "u1"}
    ),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("case", JOINING)
def test_a_row_joins_by_the_call_id_wherever_its_version_keeps_it(
    case: str, schema: str, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """One config serves every version: no column has to be named."""
    row = JOINING[case]
    if row.keys() & {"litellm_call_id"} & NOT_YET.get(schema, set()):
        row = {**row, "metadata": json.dumps({"litellm_call_id": "u1"})}
    with spend_log(postgresql, tmp_path, schema) as log:
        log.configure(BEHIND_NGINX)
        log.log("u1", 10, left=True)
        log.add(row)
        document = log.snapshot()
    assert_reads(
        document,
        {"orphan_tokens_total": RAN_ON, "orphan_join_abandoned_tasks ledger=with": 1},
    )


def test_rows_that_know_only_the_providers_id_join_nothing_and_show_it(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """Of an old version, until the engine's prefix is taken off as the page says."""
    with spend_log(postgresql, tmp_path, "early 2025") as log:
        log.log("f81", 10, left=True)
        log.log("f82", -40, start=-50)
        log.add(call("chatcmpl-f81", 0, 31), call("chatcmpl-f82", -50, -40, 700))
        log.configure(BEHIND_NGINX)
        apart = log.snapshot()
        log.configure(pools_of(BEHIND_NGINX) + BY_ENGINE_ID)
        joined = log.snapshot()
    keys = (
        "orphan_tokens_total",
        "orphan_join_abandoned_tasks ledger=with",
        "orphan_join_abandoned_tasks ledger=without",
        "orphan_join_ledger_rows task=with",
    )
    assert_reads(apart, dict(zip(keys, (0, 0, 1, 0), strict=True)))
    assert_reads(joined, dict(zip(keys, (RAN_ON, 1, 0, 1), strict=True)))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_stamps_are_utc_whatever_the_servers_zone(zone: str, log: SpendLog) -> None:
    """The columns have no zone, and LiteLLM writes UTC into them."""
    name = log.database.value("SELECT current_database()")
    log.database.run(f"ALTER DATABASE {name} SET timezone TO '{zone}'")
    log.log("u1", 10, left=True)
    log.add(call("u1", 0, 31))
    assert_reads(log.snapshot(), {"orphan_tokens_total": RAN_ON})


@pytest.mark.parametrize("schema", SCHEMAS)
def test_alone_it_knows_the_clients_that_it_saw_leaving(
    schema: str, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """The page's second config: a 499 is a cancel at its end, whatever the status says."""
    with spend_log(postgresql, tmp_path, schema) as log:
        log.configure(ALONE)
        log.add(
            call("left", 0, 10, 400, metadata=GONE),
            call("left-early", 0, 2, 0, status="failure", metadata=GONE),
            call("served", 0, 31, metadata=NO_ERROR),
            call("failed", 0, 3, 0, status="failure", metadata=BROKEN),
            call("unnoted", 0, 4, metadata=None),
        )
        document = log.snapshot()
    assert_reads(
        document,
        {
            "orphan_abandoned_tasks cause=client_cancel": 2,
            "orphan_tokens_total": 0,
            "orphan_rows_rejected_total": 0,
            "orphan_unmatched_tokens": 0,
            # There is no row while a call runs.
            "orphan_attached_tasks": None,
            "orphan_in_flight_gap": None,
        },
    )


def test_no_session_ties_calls_together(log: SpendLog) -> None:
    """One chat of a session that was served stops none of the others."""
    log.configure(ALONE)
    log.add(
        call("first", 0, 5, session_id="s1"),
        call("second", 0, 31, session_id="s1"),
        call("third", 2, 31, session_id="s1"),
    )
    assert_reads(
        log.snapshot(),
        {**NOTHING, "orphan_abandoned_tasks": 0, "orphan_duplicate_in_flight": None},
    )


def test_the_program_itself_reads_the_page_and_finds_it_sound(log: SpendLog) -> None:
    """Only the leases, which the page leaves to others, are missed; the ids join."""
    log.log("u1", 10, left=True)
    log.log("h1", -40, start=-50)
    log.add(call("u1", 0, 31), call("chatcmpl-1", -50, -40, litellm_call_id="h1"))

    told, checked = log.command("snapshot --format json"), log.command("check")

    assert told.code == 0
    assert_reads(json.loads(told.out), {"orphan_tokens_total": RAN_ON, "action": "shed"})
    wrong = [line for line in checked.out.splitlines() if line.startswith("wrong")]
    assert [line for line in wrong if "stores.leases: is not configured" in line] == wrong
    assert "2 of 2 ledger keys" in checked.out


def test_the_role_of_the_page_may_read_nothing_else(log: SpendLog) -> None:
    """Neither prompts nor answers, nor keys or users."""
    allowed = log.database.rows(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = 'LiteLLM_SpendLogs' AND has_column_privilege("
        "  'orphanwatch', quote_ident(table_name), column_name, 'SELECT')"
    )
    assert {name for (name,) in allowed} == {
        *("request_id", "call_type", "total_tokens", "prompt_tokens", "startTime", "endTime"),
        *("metadata", "cache_hit", "status", "litellm_call_id"),
    }


def test_a_reading_takes_only_the_newest_rows_by_the_index_that_is_there(log: SpendLog) -> None:
    """However long the log: it has no index on ``endTime``, and is never read whole."""
    log.configure(ALONE)
    log.database.run(
        'INSERT INTO "LiteLLM_SpendLogs" (request_id, call_type, total_tokens, "startTime",'
        ' "endTime", metadata, cache_hit, status, litellm_call_id)'
        " SELECT 'chatcmpl-' || n, 'acompletion', 700, ended - interval '20 s', ended,"
        "  jsonb_build_object('error_information', jsonb_build_object("
        "   'error_code', CASE WHEN n % 9 = 0 THEN '499' END)), 'None', 'success', 'call-' || n"
        " FROM (SELECT n, (now() AT TIME ZONE 'UTC') - n * interval '4 s' AS ended"
        "  FROM generate_series(1, 100000) AS n) AS entries",
        'ANALYZE "LiteLLM_SpendLogs"',
    )
    documents: list[Document] = []

    read_whole = log.database.times_read_whole(
        {"LiteLLM_SpendLogs": 100_000}, lambda: documents.append(log.snapshot())
    )

    [document] = documents
    assert read_whole == {"LiteLLM_SpendLogs": 0}
    assert read(document, "orphan_abandoned_tasks") == pytest.approx(3600 / 36, abs=3)
    assert read(document, "orphan_spend_tokens_per_second") == pytest.approx(700 / 4, abs=20)
