"""The preset ``envoy``: what its lines mean. They are written by hand, as Envoy documents them."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from documentation import DOCS, blocks, configs
from stack_file import ZERO, StackFile, lease

from orphanwatch.exporter.config_stores import JsonlGatewayStore
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import filled_in, preset_of
from orphanwatch.exporter.stores.documents import DocumentReader

PAGE = (DOCS / "presets" / "envoy.md").read_text(encoding="utf-8")
LOG = "/var/log/envoy/access.log"

STARTED = "2027-01-15T08:00:00.250Z"  # a quarter of a second after ZERO
BEGAN = ZERO * 1_000_000 + 250_000
ENDED = BEGAN + 3_500_000

LINE: dict[str, Any] = {
    "start_time": STARTED,
    "duration": 3500,
    "response_code": 200,
    "response_flags": "-",
    "x-request-id": "5d0a2c3e-8a52-4b6f-9a43-1f8f5c1b7a11",
    "x-retry-id": "-",
    "x-retry-attempt": "-",
}
"""A request that ended well."""


def preset_reader(**settings: Any) -> DocumentReader:
    """Return the reader of lines by the preset, and what a user adds."""
    filled = filled_in({"path": "x", **settings}, preset_of("envoy"), StoreName.GATEWAY)
    return DocumentReader(StoreName.GATEWAY, JsonlGatewayStore.model_validate(filled))


def task_of(document: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Return what a line states, by column; what it does not state is left out."""
    reader = preset_reader(**settings)
    row = reader.row(document)
    assert row is not None
    return {name: cell for name, cell in zip(reader.columns, row, strict=True) if cell is not None}


@pytest.mark.parametrize(
    ("said", "end", "outcome"),
    [
        pytest.param({}, "finished_at", None, id="a whole answer is a good end"),
        pytest.param(
            {"response_flags": "DC"}, "cancelled_at", None,
            id="a client that leaves in the middle is a cancel of code 200",
        ),
        pytest.param(
            {"response_flags": "DC", "response_code": 0}, "cancelled_at", None,
            id="one that leaves before the first byte is one of code 0",
        ),
        pytest.param(
            {"response_flags": "DR"}, "cancelled_at", None, id="a stream that is reset is a cancel"
        ),
        pytest.param(
            {"response_flags": "DownstreamConnectionTermination"}, "cancelled_at", None,
            id="flags may be in their long form",
        ),
        pytest.param(
            {"response_flags": "URX,DC"}, "cancelled_at", None, id="one of several flags tells"
        ),
        pytest.param(
            {"response_code": 0}, "cancelled_at", None,
            id="no answer at all is a cancel, without a flag too",
        ),
        pytest.param(
            {"response_flags": "UT", "response_code": 504}, "cancelled_at", "error",
            id="a timeout of the route is given up",
        ),
        pytest.param(
            {"response_flags": "DT"}, "cancelled_at", None, id="so is a duration that is over"
        ),
        pytest.param(
            {"response_flags": "SI", "response_code": 408}, "cancelled_at", "error",
            id="and a stream that stood idle",
        ),
        pytest.param(
            {"response_flags": "UMSDR"}, "cancelled_at", None,
            id="and one that took longer than it may",
        ),
        pytest.param(
            {"response_code": 504}, "cancelled_at", "error", id="and what another gave up"
        ),
        pytest.param(
            {"response_flags": "UC"}, "finished_at", "error",
            id="an upstream that breaks off in the middle is an end with an error",
        ),
        pytest.param(
            {"response_flags": "UF,URX", "response_code": 503}, "finished_at", "error",
            id="so is one that can't be reached",
        ),
        pytest.param(
            {"response_flags": "RL", "response_code": 429}, "finished_at", "error",
            id="a request that was refused finished with an error",
        ),
        pytest.param(
            {"response_code": "200", "duration": "3500"}, "finished_at", None,
            id="numbers may be texts",
        ),
        pytest.param(
            {"response_flags": None}, "finished_at", None, id="no flags may be null"
        ),
    ],
)  # fmt: skip
def test_what_a_line_means(said: dict[str, Any], end: str, outcome: str | None) -> None:
    """Who ended the request, and when: the start and the duration together."""
    task = task_of({**LINE, **said})

    assert task == {
        "task_id": LINE["x-request-id"],
        "submitted_at": BEGAN,
        end: ENDED,
        **({"outcome": outcome} if outcome else {}),
    }


def test_the_names_of_envoy_gateway_and_of_the_ai_gateway_are_known() -> None:
    """A line of the AI gateway, with dots in its keys and the tokens that it can't be asked for."""
    document = {
        "start_time": "2027-01-15T08:00:00.250Z",
        "method": "POST",
        "request.path": "/v1/chat/completions",
        "response_code": 200,
        "response_flags": "DC",
        "duration": 3500,
        "gen_ai.request.model": "llama",
        "gen_ai.usage.total_tokens": None,
        "session.id": "s1",
        "x-request-id": "r1",
    }
    task = task_of(document)

    assert (task["task_id"], task["cancelled_at"]) == ("r1", ENDED)
    assert "retry_id" not in task
    assert task_of({**LINE, "x-request-id": "-", "request_id": "i1"})["task_id"] == "i1"
    dotted = task_of({**document, "gen_ai.id": "g1"}, columns={"task_id": "gen_ai.id"})
    assert dotted["task_id"] == "g1"


def test_a_deadline_is_read_where_the_user_logs_one() -> None:
    """In milliseconds from the start; none and 0 are no deadline."""
    columns = {"deadline_after": "timeout"}

    assert task_of({**LINE, "timeout": "15000"}, columns=columns)["deadline_at"] == (
        BEGAN + 15_000_000
    )
    for none in ("-", None, 0, "0"):
        assert "deadline_at" not in task_of({**LINE, "timeout": none}, columns=columns)


def test_retries_are_told_by_the_clients_headers() -> None:
    """Not by a session, and not by Envoy's own tries."""
    task = task_of({**LINE, "x-retry-id": "r1", "x-retry-attempt": "2", "session.id": "s"})

    assert (task["retry_id"], task["attempt"]) == ("r1", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the page's config, and workers that go on whatever clients do."""
    [text] = configs(PAGE)
    stack = StackFile(tmp_path)
    stack.add("leases", lease("left", "w1", heartbeat_at=29), lease("done", "w2", heartbeat_at=29))
    (tmp_path / "orphanwatch.yml").write_text(text.replace(LOG, "access.log"))
    return tmp_path


def write(folder: Path, *documents: dict[str, Any]) -> None:
    """Write the log."""
    lines = [json.dumps(document) + "\n" for document in documents]
    (folder / "access.log").write_text("".join(lines))


LEFT = {**LINE, "x-request-id": "left", "response_flags": "DC"}
DONE = {**LINE, "x-request-id": "done"}


def test_a_snapshot_by_the_pages_config(folder: Path) -> None:
    """The worker whose client left is an orphan, the other one's lease is only leaked."""
    write(folder, LEFT, DONE)
    command = f"snapshot --config.file orphanwatch.yml --at {ZERO + 30} --format json"
    answer = run(folder, *command.split())
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)

    assert [(row["task_id"], row["cause"], row["abandoned_at"]) for row in document["orphans"]] == [
        ("left", "client_cancel", ZERO + 3.75)
    ]


def test_a_format_without_flags_is_told_by_check(folder: Path) -> None:
    """Every cancel in the middle of an answer would look like a good end."""
    write(folder, {**LEFT, "response_flags": "-"}, DONE)
    fine = run(folder, "check", "--config.file", "orphanwatch.yml")
    flagless = {name: said for name, said in LEFT.items() if name != "response_flags"}
    write(folder, flagless, {**flagless, "x-request-id": "done"})
    told = run(folder, "check", "--config.file", "orphanwatch.yml")

    said = "no record that was read has response_flags: cancels that show in it are unseen"
    assert said not in fine.out
    assert f"note   stores.gateway: {said}; add it to what is written" in told.out


def test_the_page_shows_every_field_of_the_preset() -> None:
    """What it says to write is what the preset reads."""
    [shown] = [text for text in blocks(PAGE, "text") if "json_format" in text]

    for field in LINE:
        assert f"{field}: " in shown
