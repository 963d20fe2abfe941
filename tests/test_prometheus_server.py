"""A Prometheus that a command asks: whatever it answers, the command ends soon and says why."""

import json
import time
from pathlib import Path

import pytest
from pages import Reply, breaks_off, drips, floods, self_signed, serving

from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.prometheus_server import PrometheusServer

QUERY = "/api/v1/query"
SOON = micros(0.5)
EMPTY = Reply(body=b'{"status": "success", "data": {"resultType": "vector", "result": []}}')


def slowly(reply: Reply, after: float) -> Reply:
    """Return a reply that takes its time."""
    head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(reply.body)}\r\n\r\n".encode()

    def answer(handler: object) -> None:
        time.sleep(after)
        handler.wfile.write(head + reply.body)  # type: ignore[attr-defined]  # a request handler

    return Reply(raw=answer)


def refused(status: int, error: str) -> Reply:
    """Return how Prometheus' API refuses."""
    body = {"status": "error", "errorType": "execution", "error": error}
    return Reply(status=status, body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(Reply(raw=drips), "does not answer within 500ms; ask later", id="it drips"),
        pytest.param(Reply(raw=floods), "; ask later", id="it has no end"),
        pytest.param(Reply(raw=breaks_off), "broke off its answer", id="it breaks off"),
        pytest.param(Reply(status=401, body=b"who?"), "answers 401", id="it wants a login"),
        pytest.param(
            refused(422, "too many\nsamples"), "refuses a query: too many samples", id="too much"
        ),
        pytest.param(
            Reply(status=302, headers={"Location": "http://127.0.0.1:1/login"}),
            "sends us elsewhere",
            id="it sends us elsewhere",
        ),
        pytest.param(
            Reply(body=b'{"data": {"result": "yes"}}'), "not as Prometheus does", id="another API"
        ),
    ],
)
def test_no_answer_takes_for_ever(reply: Reply, said: str) -> None:
    """Bounded in time and in size, with the remedy, and no login of the URL in it."""
    with serving({QUERY: reply}) as site:
        url = site.url("").replace("http://", "http://user:hunter2@")
        began = time.monotonic()
        with pytest.raises(PrometheusError) as caught:
            PrometheusServer(url, SOON, remedy="ask later").ask("up")
        assert time.monotonic() - began < 5
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


OURS = {"Server": "orphanwatch"}


@pytest.mark.parametrize(
    ("path", "reply", "said"),
    [
        pytest.param("/alerts", None, "no Prometheus answers below /alerts: ", id="a page of it"),
        pytest.param(
            "/graph/?g0.expr=up", Reply(body=b"<html>"), "answers below /graph: ", id="a query"
        ),
        pytest.param("/hunter2", None, "below the url's path: ", id="a path of somebody's own"),
        pytest.param("", None, "answers 404; check --prometheus.url", id="no path, another server"),
        pytest.param(
            "/alerts", Reply(status=403), "answers 403; check --prometheus.url", id="no way in"
        ),
        pytest.param("/mimir", Reply(status=502), "the server answers 502", id="a proxy's own"),
        pytest.param(
            "", Reply(status=404, headers=OURS), "that is orphanwatch itself", id="the exporter"
        ),
        pytest.param(
            "/metrics", Reply(status=401, headers=OURS), "that is orphanwatch itself",
            id="the exporter, with a login, and a path of its own",
        ),
    ],
)  # fmt: skip
def test_an_address_that_is_not_prometheus_own_says_what_it_is(
    path: str, reply: Reply | None, said: str
) -> None:
    """Whoever pasted it from a browser is told what to leave out, and no secret is repeated."""
    asked = f"{path.rstrip('/')}{QUERY}".partition("?")[0]
    replies = {} if reply is None else {asked: reply}
    with serving(replies) as site, pytest.raises(PrometheusError) as caught:
        PrometheusServer(site.url(path)).ask("up")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_questions_share_one_timeout() -> None:
    """From a beginning on: a gate that asks five times does not wait five times as long."""
    with serving({QUERY: slowly(EMPTY, 1.2)}) as site:
        server = PrometheusServer(site.url(""), micros(2))
        assert [server.ask("up"), server.ask("up")] == [[], []]
        server.begin()
        assert server.ask("up") == []
        with pytest.raises(PrometheusError, match="does not answer within 2s"):
            server.ask("up")


def test_a_part_of_the_servers_is_no_answer() -> None:
    """Thanos is told so: the part that is missing may be the replica that says closed."""
    with serving({QUERY: EMPTY, f"{QUERY}_range": EMPTY}) as site:
        server = PrometheusServer(f"{site.url('')}/")
        server.ask("up", Instant(1_800_000_000_123_456))
        server.ask_range("up", 0, 60, 15)
        paths = [path for path, _ in site.asked]
    assert all("partial_response=false" in path for path in paths)
    assert "time=1800000000.123" in paths[0]
    assert all(path.startswith(QUERY) for path in paths)


@pytest.mark.parametrize(
    "url",
    ["localhost:9090", "", "http://", "http://[::1", "http://h:99999", "ftp://h", "http://a b"],
)
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    """Nothing is asked."""
    with pytest.raises(PrometheusError, match=r"--prometheus\.url is no address of a server"):
        PrometheusServer(url)


def test_the_environment_says_whose_certificates_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's is refused, that of the bundle taken, and a bundle that is missing is named."""
    known = self_signed(tmp_path, "known")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with serving({QUERY: EMPTY}, context=known.server_context()) as site:
        with pytest.raises(PrometheusError, match="TLS"):
            PrometheusServer(site.url("")).ask("up")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(known.cert))
        assert PrometheusServer(site.url("")).ask("up") == []
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.crt"))
        with pytest.raises(PrometheusError, match="REQUESTS_CA_BUNDLE can't be read"):
            PrometheusServer(site.url("")).ask("up")
