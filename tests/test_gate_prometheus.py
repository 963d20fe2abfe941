"""``orphanwatch gate``: what Prometheus has to show before a script may admit overflow."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_session import run
from documentation import DOCS, blocks, section
from pages import Reply, serving
from servers import free_port, program, running, wait_until

from orphanwatch.exporter import names
from orphanwatch.exporter.config import default_config
from orphanwatch.exporter.gate_command import document_of, opening_lines
from orphanwatch.exporter.gate_history import GateHistory, Point, Series, limits_of
from orphanwatch.exporter.gate_verdict import Answer, GateVerdict, judge
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.names import ARM_STORES, Condition, Family

NOW = Instant(1_800_000_000 * SECOND)
LIMITS = limits_of(default_config())
A, B = '{instance="a"}', '{instance="b"}'
STEP = 15
HELD = 300 + STEP


def second(ago: float) -> Instant:
    """Return the instant so many seconds ago."""
    return Instant(NOW - round(ago * SECOND))


def series(
    family: Family,
    *labels: str,
    replica: str = A,
    value: float = 0,
    since: int = HELD,
    until: int = 5,
    **at: float,
) -> Series:
    """Return samples every 15 s, all of one value but for those named: ``s65=1`` is 65 s ago."""
    points = tuple(
        Point(second(ago), at.get(f"s{ago}", value))
        for ago in range(since + until, until - 1, -STEP)
    )
    return Series(family, replica, labels, points)


def page(replica: str = A, *, without: Family | None = None, **changes: Any) -> list[Series]:
    """Return what a calm replica shows; ``without`` one of the families."""
    read_at = (NOW - 6 * SECOND) / SECOND
    whole = [
        series(names.OVERFLOW_ADMISSION_ALLOWED, "overflow", replica=replica, value=1, **changes),
        series(names.TOKEN_DELTA, "overflow", replica=replica, **changes),
        series(names.LEASES, "overflow", "client_cancel", replica=replica, **changes),
        series(names.DUPLICATE_IN_FLIGHT, "overflow", replica=replica, **changes),
        *(series(names.STORE_UP, s, replica=replica, value=1) for s in ARM_STORES),
        *(series(names.STORE_LAST_SUCCESS, s, replica=replica, value=read_at) for s in ARM_STORES),
        *(series(names.FAIL_CLOSED, "overflow", c, replica=replica) for c in Condition),
    ]
    return [each for each in whole if each.family is not without]


def changed(whole: list[Series], *others: Series) -> list[Series]:
    """Return a page with some of its series put in the place of those of the same labels."""
    keys = {(s.family, s.replica, s.labels) for s in others}
    return [s for s in whole if (s.family, s.replica, s.labels) not in keys] + list(others)


ALLOWED = names.OVERFLOW_ADMISSION_ALLOWED


def told(
    shown: list[Series],
    *,
    replicas: int = 1,
    pools: tuple[str, ...] | None = None,
    gone: tuple[str, ...] = (),
    counted: dict[str, float] | None = None,
    same: dict[str, str] | None = None,
) -> GateVerdict:
    """Return what is said of a history, in which some replicas have gone, or are the same one."""
    reporting = {s.replica for s in shown if s.family is ALLOWED} - {*gone}
    history = GateHistory(
        at=NOW,
        series=tuple(shown),
        reporting={replica: (same or {}).get(replica, replica) for replica in reporting},
        counted=counted or {},
    )
    return judge(history, LIMITS, replicas=replicas, pools=pools)


@pytest.mark.parametrize(
    ("shown", "asked", "answer", "said"),
    [
        pytest.param(page(), {}, Answer.OPEN, "nothing closes pool overflow", id="calm"),
        pytest.param([*page(), *page(B)], {"replicas": 2}, Answer.OPEN, "", id="two of two"),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s5=0),
                    series(names.FAIL_CLOSED, "overflow", "second_decoder", s5=1)),
            {}, Answer.CLOSED, "fails closed: a request is decoded twice", id="closed now",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s5=0)),
            {}, Answer.CLOSED, "why is not shown", id="closed now, for a reason not shown",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s5=0),
                    series(names.FAIL_CLOSED, "overflow", "of_a_newer_version", s5=1)),
            {}, Answer.CLOSED, "of_a_newer_version", id="closed by a condition of a newer version",
        ),
        pytest.param(
            [*page(), *changed(page(B), series(ALLOWED, "overflow", replica=B, value=1, s5=0))],
            {}, Answer.CLOSED, "", id="one of two says closed",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s65=0)),
            {}, Answer.CLOSED, "closed until 1m5s ago, within the hold of 5m",
            id="closed within the hold",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s305=0)),
            {}, Answer.OPEN, "", id="closed before the hold",
        ),
        pytest.param(
            [*page(), *changed(page(B), series(ALLOWED, "overflow", replica=B, value=1, s65=0))],
            {"gone": (B,)}, Answer.CLOSED, "", id="closed by a replica that has gone since",
        ),
        pytest.param(
            changed(page(), series(names.LEASES, "paid", "deadline", s20=2)),
            {}, Answer.CLOSED, "orphan_leases was above zero in pool paid 20s ago",
            id="an orphan lease within the hold, in another pool",
        ),
        pytest.param(
            changed(page(), series(names.TOKEN_DELTA, "overflow", s290=9)),
            {}, Answer.CLOSED, "orphan_token_delta", id="orphan tokens within the hold",
        ),
        pytest.param(
            page(), {"counted": {"overflow": 3.0}}, Answer.CLOSED, "were counted",
            id="orphan tokens that were counted between two scrapes",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s5=0),
                    series(names.FAIL_CLOSED, "overflow", "blind", s5=1)),
            {}, Answer.UNKNOWN, "is blind", id="blind",
        ),
        pytest.param(
            changed([*page(), *page(B)], series(ALLOWED, "overflow", value=1, s5=0),
                    series(names.FAIL_CLOSED, "overflow", "blind", s5=1),
                    series(ALLOWED, "overflow", replica=B, value=0)),
            {}, Answer.CLOSED, "", id="one is blind, the other says closed",
        ),
        pytest.param(
            changed(page(), series(names.STORE_UP, "ledger", value=0)),
            {}, Answer.UNKNOWN, "store ledger is not readable", id="a store that is down",
        ),
        pytest.param(
            changed(page(), series(names.STORE_LAST_SUCCESS, "ledger",
                                   value=(NOW - 40 * SECOND) / SECOND)),
            {}, Answer.UNKNOWN, "store ledger was last read 35s before",
            id="a store that is stale",
        ),
        pytest.param(
            changed(page(), series(names.STORE_LAST_SUCCESS, "ledger",
                                   value=(NOW + 3600 * SECOND) / SECOND)),
            {}, Answer.UNKNOWN, "ahead of Prometheus'",
            id="a clock that is ahead: how old the last reading is can't be told",
        ),
        pytest.param([], {}, Answer.UNKNOWN, "0 of 1 replicas report", id="nothing at all"),
        pytest.param(
            page(), {"replicas": 2}, Answer.UNKNOWN, "1 of 2 replicas report", id="one of two"
        ),
        pytest.param(
            [*page(), *page(B)], {"replicas": 2, "same": {B: A}}, Answer.UNKNOWN,
            "1 of 2 replicas report", id="one that is scraped twice is one",
        ),
        pytest.param(
            page(), {"gone": (A,)}, Answer.UNKNOWN, "0 of 1", id="the target is down"
        ),
        pytest.param(
            page(until=75), {}, Answer.UNKNOWN, "0 of 1 replicas", id="the newest sample is old"
        ),
        pytest.param(
            page(), {"pools": ("batch",)}, Answer.UNKNOWN,
            'batch is no overflow pool that {instance="a"} reports; these are: overflow',
            id="a pool that is not there",
        ),
        pytest.param(
            changed(page(), Series(ALLOWED, A, ("overflow",), tuple(
                p for p in series(ALLOWED, "overflow", value=1).points
                if not 60 * SECOND < NOW - p.at < 160 * SECOND))),
            {}, Answer.UNKNOWN, "nothing is known of pool overflow from 2m50s to 50s ago",
            id="a gap within the hold",
        ),
        pytest.param(
            changed(page(), Series(ALLOWED, A, ("overflow",), tuple(
                p for p in series(ALLOWED, "overflow", value=1).points
                if not 60 * SECOND < NOW - p.at < 85 * SECOND))),
            {}, Answer.OPEN, "", id="two scrapes that failed",
        ),
        pytest.param(
            page(since=90), {}, Answer.UNKNOWN, "from 5m to 1m35s ago", id="scraped since shortly"
        ),
        pytest.param(
            page(since=280), {}, Answer.UNKNOWN, "from 5m to 4m",
            id="scraped for a little less than the hold",
        ),
        pytest.param(
            [*page(since=90), *changed(page(B, until=95))],
            {"gone": (B,)}, Answer.OPEN, "", id="one replica took over from another",
        ),
    ],
)  # fmt: skip
def test_open_asks_for_proof(
    shown: list[Series], asked: dict[str, Any], answer: Answer, said: str
) -> None:
    """Closed is what any replica says; what is not known is never open."""
    verdict = told(shown, **asked)
    assert verdict.answer is answer, verdict.reasons
    assert any(said in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    "family",
    [names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT, names.STORE_UP,
     names.STORE_LAST_SUCCESS],
    ids=str,
)  # fmt: skip
def test_a_series_that_is_absent_is_not_zero(family: Family) -> None:
    """An arm that shows nothing proves nothing."""
    assert told(page(without=family)).answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("shown", "counted", "opens_in", "said"),
    [
        pytest.param(page(), {}, None, [], id="open"),
        pytest.param(
            changed(page(), series(names.LEASES, "paid", "deadline", s65=2, s290=1)), {}, 235,
            ["It may open at 2027-01-15T08:03:55Z, in 3m55s, at the earliest."],
            id="a hold after the newest sign",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s65=0),
                    series(names.TOKEN_DELTA, "overflow", s20=1)), {"overflow": 3.0}, 280,
            ["It may open at 2027-01-15T08:04:40Z, in 4m40s, at the earliest."],
            id="closed, a later sign, and tokens of an instant that is not known",
        ),
        pytest.param(
            changed(page(), series(ALLOWED, "overflow", value=1, s5=0)), {}, 300,
            ["It may open at 2027-01-15T08:05:00Z, in 5m, at the earliest."], id="closed now",
        ),
        pytest.param(
            page(), {"overflow": 3.0}, None, ["When it may open is unknown."],
            id="tokens that were counted, nobody knows when",
        ),
        pytest.param([], {}, None, ["When it may open is unknown."], id="it can't be told"),
    ],
)  # fmt: skip
def test_when_it_may_open(
    shown: list[Series], counted: dict[str, float], opens_in: float | None, said: list[str]
) -> None:
    """A hold after what closed it last, for people and programs; unknown is no instant."""
    verdict = told(shown, counted=counted)
    assert list(opening_lines(verdict)) == said
    opens_at = document_of(verdict, LIMITS, 1)["opens_at"]
    assert opens_at == (None if opens_in is None else NOW / SECOND + opens_in)


class Shown:
    """A page of metrics that Prometheus scrapes, as a replica would serve it."""

    def __init__(self, *, allowed: int = 1, leases: int = 0, up: int = 1) -> None:
        self.allowed, self.leases, self.up = allowed, leases, up

    def reply(self) -> Reply:
        """Return the page as it is now."""
        blind = 1 - self.up
        lines = [
            f'orphan_overflow_admission_allowed{{pool="overflow"}} {self.allowed}',
            'orphan_token_delta{pool="overflow"} 0',
            f'orphan_leases{{pool="overflow",cause="client_cancel"}} {self.leases}',
            'orphan_duplicate_in_flight{pool="overflow"} 0',
            'orphan_tokens_total{pool="overflow",cause="deadline",basis="charged"} 12',
            f'orphan_fail_closed{{pool="overflow",condition="blind"}} {blind}',
        ]
        for store in ARM_STORES:
            lines.append(f'orphan_store_up{{store="{store}"}} {self.up}')
            read = f'orphan_store_last_success_timestamp_seconds{{store="{store}"}}'
            lines.append(f"{read} {time.time()}")
        return Reply(body="\n".join([*lines, ""]).encode(), headers={"Content-Type": "text/plain"})


CONFIG = {
    "pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}},
    "stores": {"queue": {"type": "sql", "url": "sqlite:///stack.db"}},
    "reopen_hold": "5s",
    "scrape_interval": "1s",
    "replicas": 2,
    "selector": 'service="chat"',
}


def prometheus_config(folder: Path, *ports: int) -> Path:
    """Write the config of a Prometheus that scrapes these ports every 200 ms."""
    file = folder / "prometheus.yml"
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": {"service": "chat"}} for port in ports]
    job = {"job_name": "orphanwatch", "static_configs": targets}
    scrape = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    file.write_text(yaml.safe_dump({"global": scrape, "scrape_configs": [job]}))
    return file


@pytest.mark.servers
def test_a_real_prometheus_is_asked(tmp_path: Path) -> None:
    """0 open, 1 closed, 2 can't tell: two replicas, a hold, a replica lost, a server lost."""
    (tmp_path / "orphanwatch.yml").write_text(yaml.safe_dump(CONFIG))
    first, second_ = Shown(), Shown()
    with serving({}) as one, serving({}) as two:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [program("prometheus"), f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        command += [f"--config.file={prometheus_config(tmp_path, one.port, two.port)}"]
        command += [f"--web.listen-address=127.0.0.1:{port}"]
        asked = ("gate", "--prometheus.url", url, "--config.file", "orphanwatch.yml")

        def show() -> None:
            one.replies["/metrics"], two.replies["/metrics"] = first.reply(), second_.reply()

        def code(*more: str) -> int:
            show()
            return run(tmp_path, *asked, *more).code

        show()
        with running(command, tmp_path / "prometheus.log"):
            wait_until("Prometheus' start", lambda: code() == 2, 30)
            wait_until("five seconds of sight", lambda: code() == 0, 60)
            whole = run(tmp_path, *asked, "--format", "json")
            document = json.loads(whole.out)
            assert (document["answer"], document["open"]) == ("open", True)
            assert document["replicas"] == {"reporting": 2, "needed": 2}
            assert code("--replicas", "3") == 2
            assert code("--selector", 'service="search"') == 2

            second_.leases = 1
            wait_until("the orphan lease", lambda: code() == 1, 20)
            second_.leases = 0
            time.sleep(1)
            assert code() == 1
            wait_until("the end of the hold", lambda: code() == 0, 60)

            second_.up = second_.allowed = 0
            wait_until("a blind replica", lambda: code() == 2, 20)
            text = run(tmp_path, *asked).out
            assert text.startswith("UNKNOWN: it can't be told, so treat it as closed.\n")
            assert "is blind" in text
        assert run(tmp_path, *asked).code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param((), "Missing option '--prometheus.url'", id="no server named"),
        pytest.param(
            ("--prometheus.url", "http://127.0.0.1:1"), "can't be reached", id="no server"
        ),
        pytest.param(("--replicas", "0"), "--replicas", id="no replicas"),
        pytest.param(("--selector", '"} or vector(1) #'), "--selector", id="no label matchers"),
        pytest.param(("--config.file", "no.yml"), "can't be read", id="no config"),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--pool", "paid"),
            "'paid' is no overflow pool of the config; these are: overflow",
            id="a pool that is not overflow",
        ),
        pytest.param(
            ("--config.file", "calm.yml"),
            "no pool of the config has the role overflow",
            id="no overflow pool",
        ),
        pytest.param(("--wrong",), "No such option", id="no such option"),
    ],
)
def test_a_slip_is_neither_open_nor_closed(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """Exit code 2, with the remedy."""
    (tmp_path / "orphanwatch.yml").write_text(yaml.safe_dump(CONFIG))
    calm = {**CONFIG, "pools": {"paid": {"role": "paid"}}}
    (tmp_path / "calm.yml").write_text(yaml.safe_dump(calm))
    server = () if not arguments or "--prometheus.url" in arguments else (
        "--prometheus.url", "http://127.0.0.1:1",
    )  # fmt: skip
    answer = run(tmp_path, "gate", *server, *arguments)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.parametrize(
    "body",
    [
        '{"status":"success"}',
        "[]",
        '{"status":"success","data":{"result":[[1,"2"]]}}',
        '{"data":{"result":[{"metric":{},"value":[1,"+Inf"]}]}}',
        '{"data":{"result":[{"metric":[],"value":[1,"2"]}]}}',
        "[" * 100_000,
        "<html>",
    ],
    ids=["no data", "a list", "no series", "an infinite time", "no labels", "nested", "a page"],
)
def test_an_answer_of_another_shape_is_not_open(tmp_path: Path, body: str) -> None:
    """Nor a traceback."""
    with serving({"/api/v1/query": Reply(body=body.encode())}) as site:
        answer = run(tmp_path, "gate", "--prometheus.url", site.url(""))
    assert answer.code == 2
    assert "not as Prometheus does" in answer.err


def test_the_line_of_the_page(tmp_path: Path) -> None:
    """Without a Prometheus, the batch is not submitted."""
    line, _ = blocks(section((DOCS / "gate.md").read_text(encoding="utf-8"), "In a shell"), "sh")
    command, *rest = line.split(" && ")
    assert rest == ['echo "submit the batch"\n']
    words = command.replace("127.0.0.1:9090", "127.0.0.1:1").split()
    assert words[0] == "orphanwatch"
    assert run(tmp_path, *words[1:]).code == 2
