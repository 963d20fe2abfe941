"""Passwords and certificates, over real connections."""

import base64
import http.client
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from structlog.testing import capture_logs

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.web_address import Address
from orphanwatch.exporter.web_config import WebConfigFile
from orphanwatch.exporter.web_guard import Passwords, credentials
from orphanwatch.exporter.web_response import SECURITY_HEADERS, Response, plain
from orphanwatch.exporter.web_server import WebServer

PASSWORD = "correct horse: battery"  # noqa: S105  (made up)
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


def hello(environ: Mapping[str, Any]) -> Response:
    """Answer every path."""
    return plain(HTTPStatus.OK, ("X-Scheme", environ["wsgi.url_scheme"]))


@contextmanager
def serving(path: Path) -> Iterator[WebServer]:
    """Serve with a web config file for as long as the block lasts."""
    server = WebServer(hello, Address("127.0.0.1", 0), WebConfigFile(path))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def config_file(folder: Path, text: str) -> Path:
    """Write a web config file, replacing the old one at once."""
    (folder / "web.new").write_text(text, encoding="utf-8")
    return (folder / "web.new").replace(folder / "web.yml")


def ask(
    server: WebServer, path: str = "/metrics", login: str = "", tls: ssl.SSLContext | None = None
) -> tuple[int, Mapping[str, str]]:
    """Return status and headers of one request."""
    port = server.address.port
    client = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
    )
    with closing(client):
        headers = {"Authorization": basic(login)} if login else {}
        client.request("GET", path, headers=headers)
        response = client.getresponse()
        response.read()
        return response.status, dict(response.headers)


def basic(login: str) -> str:
    """Return the header of ``user:password``."""
    return "Basic " + base64.b64encode(login.encode()).decode()


@pytest.mark.parametrize(
    ("path", "login", "status"),
    [
        pytest.param("/metrics", f"prometheus:{PASSWORD}", 200, id="the right password"),
        pytest.param("/metrics", "", 401, id="none"),
        pytest.param("/metrics", "prometheus:wrong", 401, id="a wrong one"),
        pytest.param("/metrics", "prometheus:", 401, id="an empty one"),
        pytest.param("/metrics", f"nobody:{PASSWORD}", 401, id="an unknown user"),
        pytest.param("/metrics", f"prometheus:{'x' * 500}", 401, id="one too long for bcrypt"),
        pytest.param("/metrics", "prometheus:\0", 401, id="a byte that bcrypt dislikes"),
        pytest.param("/", "", 401, id="the status page needs it too"),
        pytest.param("/nowhere", "", 401, id="unknown paths tell nothing"),
        pytest.param("/-/healthy", "", 200, id="health needs none"),
        pytest.param("/-/ready", "", 200, id="nor does readiness"),
        pytest.param("/-/healthy/", "", 401, id="what only looks like health does"),
    ],
)
def test_passwords(tmp_path: Path, path: str, login: str, status: int) -> None:
    """Who is not known reads nothing but the health; the refusal is a challenge."""
    with serving(config_file(tmp_path, f"basic_auth_users: {{prometheus: {HASH}}}")) as server:
        answer, headers = ask(server, path, login)
    assert answer == status
    assert ("WWW-Authenticate" in headers) is (status == 401)
    assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_users_change_while_running(tmp_path: Path) -> None:
    """A new password counts from the next request, the old one no more; a bad file closes all."""
    with serving(config_file(tmp_path, f"basic_auth_users: {{prometheus: {HASH}}}")) as server:
        assert ask(server, login=f"prometheus:{PASSWORD}")[0] == 200
        other = bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()
        config_file(tmp_path, f"basic_auth_users: {{prometheus: {other}}}")
        assert ask(server, login=f"prometheus:{PASSWORD}")[0] == 401
        assert ask(server, login="prometheus:new")[0] == 200
        with capture_logs():
            config_file(tmp_path, "basic_auth_users: {prometheus: plain}")
            assert ask(server, login="prometheus:new")[0] == 500
            assert ask(server)[0] == 500
            assert ask(server, "/-/healthy")[0] == 200


def test_headers_of_the_file(tmp_path: Path) -> None:
    """A header that the file sets takes the place of ours."""
    text = "http_server_config: {headers: {X-Frame-Options: sameorigin}}"
    with serving(config_file(tmp_path, text)) as server:
        headers = ask(server)[1]
    assert headers["X-Frame-Options"] == "sameorigin"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(basic("a:b"), ("a", b"b"), id="plain"),
        pytest.param("BASIC YTpi", ("a", b"b"), id="the scheme in capitals"),
        pytest.param(basic("a:b:c"), ("a", b"b:c"), id="a colon in the password"),
        pytest.param("Basic YQ", None, id="broken base64"),
        pytest.param(basic("nocolon"), None, id="no colon"),
        pytest.param("Bearer abc", None, id="another scheme"),
        pytest.param("Basic \xff", None, id="no ASCII"),
        pytest.param("Basic", None, id="nothing"),
        pytest.param("", None, id="no header"),
        pytest.param("Basic /zo=", None, id="a user that is no text"),
    ],
)
def test_credentials(header: str, expected: tuple[str, bytes] | None) -> None:
    """A header is either a user and a password, or nobody."""
    assert credentials(header) == expected


def test_an_unknown_user_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known or not, one bcrypt comparison of the same cost: time tells nothing."""
    costs = []
    real = bcrypt.checkpw

    def counted(password: bytes, stored: bytes) -> bool:
        costs.append(stored[4:6])
        return real(password, stored)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    passwords = Passwords()
    assert passwords.admit({"alice": HASH}, "alice", b"wrong") is False
    assert passwords.admit({"alice": HASH}, "mallory", b"wrong") is False
    assert costs == [b"04", b"04"]


def test_guessing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While guesses are being checked, a remembered password passes and more guesses are cut."""
    passwords, users, stuck = Passwords(), {"alice": HASH}, threading.Event()
    assert passwords.admit(users, "alice", PASSWORD.encode()) is True

    def slow(password: bytes, stored: bytes) -> bool:  # noqa: ARG001  (bcrypt's signature)
        return not stuck.wait(timeout=10)

    monkeypatch.setattr(bcrypt, "checkpw", slow)
    with ThreadPoolExecutor(5) as pool:
        guesses = [pool.submit(passwords.admit, users, "alice", b"%d" % n) for n in range(5)]
        assert next(as_completed(guesses)).result() is None
        assert passwords.admit(users, "alice", PASSWORD.encode()) is True
        stuck.set()
    assert sorted(str(guess.result()) for guess in guesses) == ["False"] * 4 + ["None"]


def test_too_many_guesses_are_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many passwords are being checked, the answer is to come again, not a page."""
    monkeypatch.setattr(Passwords, "admit", lambda *_: None)
    with serving(config_file(tmp_path, f"basic_auth_users: {{prometheus: {HASH}}}")) as server:
        status, headers = ask(server, login=f"prometheus:{PASSWORD}")
    assert (status, headers["Retry-After"]) == (503, "1")


def test_only_so_many_passwords_are_remembered() -> None:
    """What is remembered stays bounded, whoever logs in."""
    passwords = Passwords()
    for number in range(102):
        word = b"%d" % number
        users = {"alice": bcrypt.hashpw(word, bcrypt.gensalt(4)).decode()}
        assert passwords.admit(users, "alice", word) is True
    assert len(passwords._right) == 100


def openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in a folder."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def certificate(folder: Path, name: str) -> None:
    """Make a certificate for 127.0.0.1 that signs itself."""
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with certificates of a server, its successor and a client."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "second", "client"):
        certificate(folder, name)
    return folder


def trusting(folder: Path, server: str = "server", client: str = "") -> ssl.SSLContext:
    """Return the context of a client that trusts one server, and may show a certificate."""
    context = ssl.create_default_context(cafile=str(folder / f"{server}.pem"))
    if client:
        context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
    return context


def tls_file(folder: Path, certificates: Path, more: str = "") -> Path:
    """Write a web config with the server's certificate, copied beside it."""
    take(certificates, "server", folder)
    return config_file(
        folder, f"tls_server_config: {{cert_file: cert.pem, key_file: key.pem{more}}}"
    )


def take(certificates: Path, name: str, folder: Path) -> None:
    """Put a certificate and its key in place."""
    for source, target in ((f"{name}.key", "key.pem"), (f"{name}.pem", "cert.pem")):
        (folder / "new").write_bytes((certificates / source).read_bytes())
        os.replace(folder / "new", folder / target)  # noqa: PTH105  (the call that is atomic)


def test_https(tmp_path: Path, certificates: Path) -> None:
    """The page is served over TLS 1.2 and 1.3, with a relative certificate path."""
    with serving(tls_file(tmp_path, certificates)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        status, headers = ask(server, tls=trusting(certificates))
        assert (status, headers["X-Scheme"]) == (200, "https")
        older = trusting(certificates)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        assert ask(server, tls=older)[0] == 200


def test_the_format_is_the_toolkits(tmp_path: Path, certificates: Path) -> None:
    """A file that uses every key we read is a valid one to Prometheus's own checker."""
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing; install the Debian package prometheus"
    more = (
        f", client_ca_file: {certificates}/client.pem, min_version: TLS12, max_version: TLS13, "
        "client_auth_type: VerifyClientCertIfGiven"
    )
    path = tls_file(tmp_path, certificates, more)
    text = f"""{path.read_text(encoding="utf-8")}
basic_auth_users: {{prometheus: {HASH}}}
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'none'
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: "0"
    Strict-Transport-Security: max-age=600
"""
    path.write_text(text, encoding="utf-8")
    subprocess.run([promtool, "check", "web-config", str(path)], check=True, capture_output=True)
    with serving(path) as server:
        login = f"prometheus:{PASSWORD}"
        status, headers = ask(server, login=login, tls=trusting(certificates))
    assert (status, headers["Strict-Transport-Security"]) == (200, "max-age=600")


def test_old_tls_is_refused(tmp_path: Path, certificates: Path) -> None:
    """A client below the least version does not get in, and the server goes on."""
    path = tls_file(tmp_path, certificates, ", min_version: TLS13")
    with serving(path) as server:
        old = trusting(certificates)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            ask(server, tls=old)
        assert ask(server, tls=trusting(certificates))[0] == 200


def test_plain_http_on_the_tls_port(tmp_path: Path, certificates: Path) -> None:
    """Who forgets the s is told so, with the headers of every answer."""
    with serving(tls_file(tmp_path, certificates)) as server:
        status, headers = ask(server)
        assert status == 400
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert ask(server, tls=trusting(certificates))[0] == 200


def test_client_certificates(tmp_path: Path, certificates: Path) -> None:
    """Only a client with a certificate of the named CA reads anything."""
    more = (
        f", client_ca_file: {certificates}/client.pem, client_auth_type: RequireAndVerifyClientCert"
    )
    with serving(tls_file(tmp_path, certificates, more)) as server:
        assert ask(server, tls=trusting(certificates, client="client"))[0] == 200
        for stranger in ("", "second"):
            with pytest.raises(OSError, match=r"alert|reset|EOF|pipe|closed"):
                ask(server, tls=trusting(certificates, client=stranger))


def test_certificates_are_renewed_without_a_restart(tmp_path: Path, certificates: Path) -> None:
    """The next connection sees the new certificate; a broken one leaves the last good one."""
    with serving(tls_file(tmp_path, certificates)) as server:
        take(certificates, "second", tmp_path)
        assert ask(server, tls=trusting(certificates, "second"))[0] == 200
        with capture_logs() as logs:
            (tmp_path / "cert.pem").write_text("rubbish", encoding="utf-8")
            for _ in range(2):
                assert ask(server, tls=trusting(certificates, "second"))[0] == 200
    assert [log["event"] for log in logs if log["log_level"] == "error"] == [
        "certificate not taken"
    ]


@pytest.mark.parametrize(
    ("cert", "key"),
    [
        pytest.param("nowhere.pem", "server.key", id="a certificate that is not there"),
        pytest.param("server.pem", "client.key", id="a key of another certificate"),
        pytest.param("server.key", "server.key", id="a key in the certificate's place"),
    ],
)
def test_certificates_that_do_not_fit(
    tmp_path: Path, certificates: Path, cert: str, key: str
) -> None:
    """The server does not start, and the error names the file."""
    text = (
        f"tls_server_config: {{cert_file: {certificates}/{cert}, key_file: {certificates}/{key}}}"
    )
    server = WebServer(hello, Address("127.0.0.1", 0), WebConfigFile(config_file(tmp_path, text)))
    with pytest.raises(ConfigError, match=cert):
        server.start()


def test_a_client_ca_that_is_none(tmp_path: Path, certificates: Path) -> None:
    """A client CA that can't be read is named, and nothing is served without it."""
    more = ", client_ca_file: key.pem, client_auth_type: RequireAndVerifyClientCert"
    path = tls_file(tmp_path, certificates, more)
    server = WebServer(hello, Address("127.0.0.1", 0), WebConfigFile(path))
    with pytest.raises(ConfigError, match=r"key\.pem: can't be used"):
        server.start()


def test_an_encrypted_key_does_not_ask(tmp_path: Path, certificates: Path) -> None:
    """A key with a passphrase is an error at the start, never a question on a terminal."""
    openssl(
        certificates, "ec", "-in", "server.key", "-aes128", "-passout", "pass:x", "-out",
        str(tmp_path / "locked.key"),
    )  # fmt: skip
    text = f"tls_server_config: {{cert_file: {certificates}/server.pem, key_file: locked.key}}"
    server = WebServer(hello, Address("127.0.0.1", 0), WebConfigFile(config_file(tmp_path, text)))
    with pytest.raises(ConfigError, match=r"locked\.key"):
        server.start()


def test_tls_does_not_vanish_while_running(tmp_path: Path, certificates: Path) -> None:
    """A file that lost its TLS section does not turn the port into plain HTTP."""
    with serving(tls_file(tmp_path, certificates)) as server:
        config_file(tmp_path, "")
        assert ask(server, tls=trusting(certificates))[0] == 200
        assert ask(server)[0] == 400
