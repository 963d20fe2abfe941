"""Places asked over HTTP: who is believed, who is let in, and what a broken answer costs."""

import gzip
import time
from pathlib import Path
from typing import Any

import pytest
from metric_stores import QueueReader
from pages import (
    TEXT,
    Certificate,
    Reply,
    basic,
    breaks_off,
    drips,
    floods,
    hangs,
    page,
    self_signed,
    serving,
    speaks_no_http,
)

from orphanwatch.exporter.errors import StoreError

PAGE = page('running{engine="0"} 3\nrunning{engine="1"} 4\n')
SECRET = "correct horse: bättery"  # noqa: S105  (made up)


def in_flight(folder: Path, url: str, **settings: Any) -> float | None:
    """Return what a page says is running."""
    given = {"form": "exposition", "metrics": {"in_flight": "running"}, "timeout": "500ms"}
    sample = QueueReader(folder, url=url, **{**given, **settings}).read()
    return None if sample is None else sample.in_flight


def problem(folder: Path, url: str, **settings: Any) -> str:
    """Return what is said of a place that could not be read."""
    with pytest.raises(StoreError) as error:
        in_flight(folder, url, **settings)
    assert url not in error.value.problem
    assert error.value.__cause__ is None
    return error.value.problem


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(Reply(raw=hangs), "no answer from HOST within 500ms; see what", id="it hangs"),
        pytest.param(
            Reply(raw=drips), "no answer from HOST within 500ms; see what", id="it never ends"
        ),
        pytest.param(Reply(raw=floods), "the answer of HOST is far too long", id="it is huge"),
        pytest.param(
            Reply(
                body=gzip.compress(b"#" * 40_000_000, compresslevel=1),
                headers={"Content-Type": TEXT, "Content-Encoding": "gzip"},
            ),
            "the answer of HOST is far too long",
            id="it is huge once it is unpacked",
        ),
        pytest.param(
            Reply(body=b"no gzip", headers={"Content-Type": TEXT, "Content-Encoding": "gzip"}),
            "the answer of HOST can't be unpacked",
            id="it says gzip and is none",
        ),
        pytest.param(Reply(raw=breaks_off), "HOST breaks the answer off", id="it breaks off"),
        pytest.param(
            Reply(raw=speaks_no_http), "or speaks no HTTP; check the url", id="it is no HTTP"
        ),
        pytest.param(
            Reply(body=b"<html>", headers={"Content-Type": "text/html; charset=utf-8"}),
            "is no page of metrics (it is text/html); check the url, whose path is /metrics",
            id="it is a web page",
        ),
        pytest.param(
            Reply(body=b'{"detail": "x"}', headers={"Content-Type": "application/json"}),
            "is no page of metrics (it is application/json)",
            id="it is JSON",
        ),
        pytest.param(
            page("<html>\n<body>running 3</body>\n"),
            "is no page of metrics (its lines are no samples)",
            id="it is a web page that says it is text",
        ),
        pytest.param(page("OK"), "(its lines are no samples)", id="it is a word"),
        pytest.param(
            Reply(body=b"\xff\xfe", headers={"Content-Type": TEXT}),
            "is no page of metrics (it is no text)",
            id="it is binary",
        ),
        pytest.param(
            Reply(
                body=b"running 3\n",
                headers={"Content-Type": "application/openmetrics-text; version=1.0.0"},
            ),
            "is no page of metrics (it breaks off before its end)",
            id="it is OpenMetrics without its end",
        ),
        pytest.param(
            Reply(status=404), "HOST has nothing at the url's path (404 Not Found)", id="not found"
        ),
        pytest.param(
            Reply(status=503),
            "HOST answers with an error of its own (503 Service Unavailable); see its log",
            id="an error of the server",
        ),
        pytest.param(
            Reply(status=418), "HOST does not answer the question (418", id="another status"
        ),
        pytest.param(
            Reply(status=302, headers={"Location": "http://localhost:1/metrics"}),
            "HOST redirects to another address; write the final one as url",
            id="a redirect to another host",
        ),
        pytest.param(
            Reply(status=302, headers={"Location": "/metrics"}),
            "HOST redirects over and over",
            id="a redirect to itself",
        ),
    ],
)
def test_a_broken_answer_is_told_with_its_remedy(tmp_path: Path, reply: Reply, said: str) -> None:
    """Whatever comes costs at most the timeout, and the place is named by host and port."""
    with serving({"/metrics": reply}) as pages:
        started = time.monotonic()
        told = problem(tmp_path, pages.url())
        assert time.monotonic() - started < 3
        assert said.replace("HOST", f"127.0.0.1:{pages.port}") in told


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(
            Reply(
                body=gzip.compress(PAGE.body),
                headers={"Content-Type": TEXT, "Content-Encoding": "gzip"},
            ),
            id="packed by gzip",
        ),
        pytest.param(
            Reply(status=307, headers={"Location": "/metrics/"}), id="a redirect of its own"
        ),
        pytest.param(
            Reply(
                body=b"# TYPE running gauge\n" + PAGE.body + b"# EOF\n",
                headers={"Content-Type": "application/openmetrics-text; version=1.0.0"},
            ),
            id="OpenMetrics",
        ),
        pytest.param(Reply(body=PAGE.body), id="without a content type"),
    ],
)
def test_what_servers_do_is_understood(tmp_path: Path, reply: Reply) -> None:
    """Each of these is the same page."""
    with serving({"/metrics": reply, "/metrics/": PAGE}) as pages:
        assert in_flight(tmp_path, pages.url()) == 7


def test_nobody_answers(tmp_path: Path) -> None:
    """A port that nobody listens on, and a host that there is none of."""
    refused = problem(tmp_path, "http://127.0.0.1:1/metrics")
    assert refused == "127.0.0.1:1 refuses the connection; check the url, and that it runs"
    unknown = problem(tmp_path, "http://no.such.host.invalid/metrics")
    assert unknown == "no.such.host.invalid is a host that can't be found; check the url"


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        pytest.param(
            basic("watch", SECRET), {"username": "watch", "password_file": "secret"}, id="basic"
        ),
        pytest.param("Bearer s3cr3t", {"token_file": "token"}, id="bearer"),
        pytest.param(
            "ApiKey s3cr3t", {"headers": {"Authorization": "ApiKey s3cr3t"}}, id="a header"
        ),
    ],
)
def test_credentials_are_sent(tmp_path: Path, key: str, settings: dict[str, Any]) -> None:
    """From files next to the config; a redirect within the server keeps them."""
    (tmp_path / "secret").write_text(f"{SECRET}\n", encoding="utf-8")
    (tmp_path / "token").write_text("s3cr3t\n", encoding="utf-8")
    moved = Reply(status=307, headers={"Location": "/metrics/"})
    with serving({"/metrics": moved, "/metrics/": PAGE}) as pages:
        pages.key = key
        # Time enough for a busy machine: how long it may take is not what this asks.
        assert in_flight(tmp_path, pages.url(), timeout="5s", **settings) == 7
        assert problem(tmp_path, pages.url(), timeout="5s") == (
            f"127.0.0.1:{pages.port} wants credentials (401 Unauthorized); "
            "write username and password_file, or token_file"
        )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"username": "watch", "password": SECRET}, id="basic"),
        pytest.param({"token": SECRET.replace("ä", "a")}, id="bearer"),
        pytest.param({"headers": {"X-Key": SECRET}}, id="a header"),
    ],
)
def test_wrong_credentials_are_not_shown(tmp_path: Path, settings: dict[str, Any]) -> None:
    """The error says that they are refused, and not what they are."""
    with serving({"/metrics": PAGE}) as pages:
        pages.key = "Bearer another"
        told = problem(tmp_path, pages.url(), **settings)
        assert told.startswith(f"127.0.0.1:{pages.port} refuses our credentials (401 Unauthor")
        assert "horse" not in told
        assert "watch" not in told


def test_a_broken_header_is_not_shown(tmp_path: Path) -> None:
    """A line break would end the header; what comes after it is a secret all the same."""
    with serving({"/metrics": PAGE}) as pages:
        told = problem(tmp_path, pages.url(), headers={"X-Key": "a\nb: horse"})
        assert told.endswith("can't be sent; look for line breaks in headers and token")
        assert pages.asked == []


def test_credentials_do_not_leave_the_server(tmp_path: Path) -> None:
    """A redirect to another port is refused, and that port is not asked."""
    with serving({"/metrics": PAGE}) as other, serving() as pages:
        pages.replies["/metrics"] = Reply(status=302, headers={"Location": other.url()})
        assert "redirects to another address" in problem(tmp_path, pages.url(), token="t")  # noqa: S106  (made up)
        assert other.asked == []


def test_the_environment_is_not_consulted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a proxy nor a ``.netrc`` of whoever starts the program changes what is asked."""
    (tmp_path / ".netrc").write_text("default login someone password else\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving({"/metrics": PAGE}) as pages:
        assert in_flight(tmp_path, pages.url()) == 7
        [(_, headers)] = pages.asked
        assert "Authorization" not in headers


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    """Return certificates that signed themselves, one of them for another address."""
    folder = tmp_path_factory.mktemp("certificates")
    return {
        "server": self_signed(folder, "server"),
        "client": self_signed(folder, "client"),
        "elsewhere": self_signed(folder, "elsewhere", address="127.0.0.9"),
    }


def test_a_certificate_is_believed_by_its_file(
    tmp_path: Path, certificates: dict[str, Certificate]
) -> None:
    """``ca_file`` makes it known; without it, or with another, the error says what is missing."""
    server = certificates["server"]
    with serving({"/metrics": PAGE}, context=server.server_context()) as pages:
        place = f"127.0.0.1:{pages.port}"
        assert in_flight(tmp_path, pages.url(), ca_file=str(server.cert)) == 7
        assert in_flight(tmp_path, pages.url(), insecure_skip_verify=True) == 7
        assert problem(tmp_path, pages.url()) == (
            f"the certificate of {place} is not trusted (self-signed certificate); "
            "write the certificate that signs it as ca_file"
        )
        assert problem(tmp_path, pages.url(), ca_file=str(certificates["client"].cert)).endswith(
            "(self-signed certificate); check that ca_file signs it"
        )
        assert problem(tmp_path, pages.url(), ca_file=str(server.key)) == (
            f"no TLS with {place} (no certificate or crl found); "
            "check ca_file, cert_file and key_file"
        )


def test_a_certificate_of_another_address_is_not_believed(
    tmp_path: Path, certificates: dict[str, Certificate]
) -> None:
    """Even where whoever signed it is trusted."""
    elsewhere = certificates["elsewhere"]
    with serving({"/metrics": PAGE}, context=elsewhere.server_context()) as pages:
        told = problem(tmp_path, pages.url(), ca_file=str(elsewhere.cert))
        assert "mismatch" in told
        assert told.endswith("write the host in the url as the certificate names it")


def test_a_server_may_ask_for_a_certificate(
    tmp_path: Path, certificates: dict[str, Certificate]
) -> None:
    """``cert_file`` and ``key_file`` show who asks."""
    server, client = certificates["server"], certificates["client"]
    context = server.server_context(trusted_client=client.cert)
    both = tmp_path / "both.pem"
    both.write_bytes(client.cert.read_bytes() + client.key.read_bytes())
    with serving({"/metrics": PAGE}, context=context) as pages:
        known = {"ca_file": str(server.cert)}
        pair = {"cert_file": str(client.cert), "key_file": str(client.key)}
        assert in_flight(tmp_path, pages.url(), **known, **pair) == 7
        assert in_flight(tmp_path, pages.url(), **known, cert_file=str(both)) == 7
        assert problem(tmp_path, pages.url(), **known) == (
            f"127.0.0.1:{pages.port} ends the TLS connection, as one does that asks for a "
            "certificate of ours; write cert_file and key_file"
        )
        mixed = {"cert_file": str(client.cert), "key_file": str(server.key)}
        assert "(key values mismatch)" in problem(tmp_path, pages.url(), **known, **mixed)


@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file"])
def test_a_file_that_can_not_be_read_is_named_alone(
    key: str, tmp_path: Path, certificates: dict[str, Certificate]
) -> None:
    """Of three files the one that is at fault, with its path and the reason."""
    server, client = certificates["server"], certificates["client"]
    files = {"ca_file": server.cert, "cert_file": client.cert, "key_file": client.key}
    settings = {name: str(path) for name, path in files.items()} | {key: "none.pem"}
    with serving({"/metrics": PAGE}, context=server.server_context()) as pages:
        assert problem(tmp_path, pages.url(), **settings) == (
            f"{key} {tmp_path / 'none.pem'} can't be read (No such file or directory); "
            "check the path and permissions"
        )


def test_tls_is_asked_of_a_server_without(tmp_path: Path) -> None:
    """The url says https, the server speaks plain HTTP."""
    with serving({"/metrics": PAGE}) as pages:
        told = problem(tmp_path, pages.url().replace("http:", "https:"))
        assert told == f"127.0.0.1:{pages.port} speaks no TLS; write http:// in the url"
