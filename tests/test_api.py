"""The JSON answers: what they hold, page by page, and that they are what their schemas say."""

import json
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import made_up_boards as made_up
import pytest
from jsonschema import Draft202012Validator

from orphanwatch.exporter.board import Published
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import Action, Cause, Condition, StoreName
from orphanwatch.exporter.snapshot import document_of
from orphanwatch.exporter.web import WebApp

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"
BOARDS = {
    "shed": made_up.shed(),
    "blind": made_up.blind(),
    "hold": made_up.hold(),
    "scale": made_up.scale(),
}


def schema(name: str) -> dict[str, Any]:
    """Return a schema of the docs."""
    read: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return read


def ask(published: Published, path: str, query: str = "") -> tuple[int, dict[str, Any]]:
    """Return status and document of a path."""
    app = WebApp(
        board=made_up.FakeBoard(published),
        config=made_up.config(),
        document=document_of,
        pages={},
        now=lambda: Instant(made_up.AT),
    )
    environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": query}
    setup_testing_defaults(environ)
    response = app(environ)
    return response.status.value, json.loads(response.body)


@pytest.mark.parametrize("name", ["verdict", "orphans", "snapshot"])
@pytest.mark.parametrize("published", BOARDS.values(), ids=BOARDS)
def test_each_answer_is_what_its_schema_says(published: Published, name: str) -> None:
    """In every state, with no key more and none less."""
    status, document = ask(published, f"/api/v1/{name}")
    assert status == 200
    Draft202012Validator(schema(name)).validate(document)


@pytest.mark.parametrize("name", ["verdict", "orphans", "snapshot", "error"])
def test_the_schemas_are_schemas(name: str) -> None:
    """By their own standard."""
    Draft202012Validator.check_schema(schema(name))


def test_the_schemas_know_every_name() -> None:
    """Verdicts, causes, conditions and stores are those of the product."""
    verdict = schema("verdict")["properties"]
    pool = verdict["pools"]["additionalProperties"]["properties"]
    orphan = schema("orphans")["properties"]["orphans"]["items"]["properties"]
    assert verdict["action"]["enum"] == list(Action)
    assert list(pool["fail_closed"]["properties"]) == list(Condition)
    assert verdict["stores"]["propertyNames"]["enum"] == list(StoreName)
    assert orphan["cause"]["enum"] == list(Cause)


def test_the_verdict_tells_pools_and_stores() -> None:
    """The numbers by pool; what a lost ledger leaves unknown is null."""
    _, shed = ask(made_up.shed(), "/api/v1/verdict")
    assert shed["action"] == "shed"
    assert shed["pools"]["overflow"]["orphan_token_delta"] == 18_432
    assert shed["pools"]["overflow"]["orphan_leases"] == 25
    assert shed["pools"]["overflow"]["fail_closed"]["orphan_tokens"] is True
    assert shed["pools"]["overflow"]["fail_closed"]["second_decoder"] is None
    assert "fail_closed" not in shed["pools"]["paid"]
    _, blind = ask(made_up.blind(), "/api/v1/verdict")
    assert blind["pools"]["overflow"]["orphan_token_delta"] is None
    assert blind["pools"]["overflow"]["overflow_admission_allowed"] is False
    assert blind["pools"]["overflow"]["fail_closed"]["blind"] is True
    assert blind["pools"]["overflow"]["fail_closed"]["orphan_tokens"] is None
    assert blind["stores"]["ledger"] == {
        "up": False,
        "problem": "no answer within 5s",
        "last_success_at": 1_699_999_246.0,
    }


def test_the_orphans_come_page_by_page() -> None:
    """All of them once, the worst first; the last page says that it is the last."""
    seen, offset = [], 0
    while offset is not None:
        _, page = ask(made_up.shed(), "/api/v1/orphans", f"limit=10&offset={offset}")
        assert len(page["orphans"]) <= 10
        seen += [orphan["task_id"] for orphan in page["orphans"]]
        offset = page["next_offset"]
    evaluation = made_up.shed().evaluation
    assert evaluation is not None
    assert seen == [orphan.task_id for orphan in evaluation.orphans]
    assert page["total"] == len(seen)


def test_beyond_the_last_orphan_there_is_an_empty_page() -> None:
    """An offset too far is no error: the list may have become shorter."""
    _, page = ask(made_up.shed(), "/api/v1/orphans", "offset=5000")
    assert (page["orphans"], page["next_offset"]) == ([], None)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("limit=0", "limit is a whole number from 1 to 1000", id="no orphan at all"),
        pytest.param("limit=1001", "limit is a whole number from 1 to 1000", id="too many"),
        pytest.param("limit=", "limit is a whole number from 1 to 1000", id="nothing"),
        pytest.param("limit=²", "limit is a whole number from 1 to 1000", id="no digit of ours"),
        pytest.param("offset=-1", "offset is a whole number from 0 to 999999999", id="negative"),
        pytest.param("limt=5", "only limit and offset are known", id="a slip of the keyboard"),
        pytest.param("limit=1&limit=2", "limit stands there twice", id="twice"),
        pytest.param("a=1&" * 20, "only limit and offset are known", id="a lot of everything"),
    ],
)
def test_a_wrong_question_is_told_what_is_right(query: str, message: str) -> None:
    """Status 400, and never the value that was sent."""
    assert ask(made_up.shed(), "/api/v1/orphans", query) == (400, {"error": message})


@pytest.mark.parametrize("name", ["verdict", "orphans", "snapshot"])
@pytest.mark.parametrize(
    "published", [made_up.nothing_yet(), made_up.stale()], ids=["before the first", "stale"]
)
def test_nothing_known_is_no_empty_list(published: Published, name: str) -> None:
    """Before the first evaluation, and once it is stale: status 503, and a sentence."""
    status, document = ask(published, f"/api/v1/{name}")
    assert status == 503
    Draft202012Validator(schema("error")).validate(document)
