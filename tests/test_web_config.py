"""The web config file: what it accepts, what it refuses and how, and who may listen where."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.web_address import Address, parse_address
from orphanwatch.exporter.web_config import (
    WebConfig,
    WebConfigFile,
    check_bind,
    load_web_config,
)

HASH = "$2y$04$" + "a" * 53
USERS = f"basic_auth_users: {{prometheus: '{HASH}'}}\n"
TLS = "tls_server_config: {cert_file: tls/cert.pem, key_file: /abs/key.pem}\n"
CLIENT_TLS = (
    "tls_server_config: {cert_file: c, key_file: k, client_ca_file: ca, "
    "client_auth_type: RequireAndVerifyClientCert}\n"
)


def write(folder: Path, text: str) -> Path:
    """Write a web config file."""
    path = folder / "web.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_is_plain_http(tmp_path: Path) -> None:
    """Nothing said is no TLS and no users, as in exporter-toolkit."""
    config = load_web_config(write(tmp_path, "# nothing\n"))
    assert config == WebConfig()
    assert (config.tls, config.users, config.headers) == (None, {}, {})


def test_a_whole_file(tmp_path: Path) -> None:
    """Paths are taken from the file's folder, hashes are hidden, set headers are kept."""
    text = f"""{TLS}{USERS}
http_server_config:
  http2: false
  headers: {{X-Frame-Options: sameorigin, Strict-Transport-Security: max-age=600}}
"""
    config = load_web_config(write(tmp_path, text))
    assert config.tls is not None
    assert config.tls.files == (tmp_path / "tls/cert.pem", Path("/abs/key.pem"))
    assert config.tls.min_version == "TLS12"
    assert HASH not in repr(config)
    assert config.headers == {
        "X-Frame-Options": "sameorigin",
        "Strict-Transport-Security": "max-age=600",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "basic_auth_user: {}",
            "basic_auth_user: is no key we know; check its spelling",
            id="a misspelt key",
        ),
        pytest.param(
            "tls: {}", "tls: is no key we know; check its spelling", id="our own name for a key"
        ),
        pytest.param(
            "rate_limit: {burst: 1}",
            "rate_limit: is a key of exporter-toolkit that is not supported here; remove it",
            id="a key that can't be honoured is not ignored",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c, key_file: k, cipher_suites: [X]}",
            "tls_server_config.cipher_suites: is a key of exporter-toolkit that is not supported "
            "here; remove it",
            id="nor one further down",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c}",
            "tls_server_config.key_file: is missing; add it",
            id="a certificate without its key",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c, key_file: k, min_version: TLS10}",
            "tls_server_config.min_version: Input should be 'TLS12' or 'TLS13'",
            id="TLS 1.0",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c, key_file: k, min_version: TLS13, "
            "max_version: TLS12}",
            "tls_server_config: min_version is above max_version",
            id="versions crossed",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c, key_file: k, client_ca_file: ca}",
            "tls_server_config: client_ca_file and a client_auth_type other than NoClientCert "
            "need each other",
            id="a client CA that nothing asks for",
        ),
        pytest.param(
            "tls_server_config: {cert_file: c, key_file: k, "
            "client_auth_type: RequireAnyClientCert}",
            "tls_server_config.client_auth_type: Input should be 'NoClientCert', "
            "'VerifyClientCertIfGiven' or 'RequireAndVerifyClientCert'",
            id="a certificate that nobody checks",
        ),
        pytest.param(
            "basic_auth_users: {alice: secret}",
            "basic_auth_users.alice: is no bcrypt hash; make one with: htpasswd -nBC 10 USER",
            id="a password in the clear is not repeated",
        ),
        pytest.param(
            "http_server_config: {headers: {Set-Cookie: x}}",
            "http_server_config.headers.Set-Cookie: is no key we know; check its spelling",
            id="a header outside the set",
        ),
        pytest.param(
            'http_server_config: {headers: {X-XSS-Protection: "1\\r\\nEvil: x"}}',
            "http_server_config.headers.X-XSS-Protection: may hold printable ASCII only",
            id="a header that smuggles another",
        ),
        pytest.param(
            "basic_auth_users: {}\nbasic_auth_users: {}",
            "line 2: the key 'basic_auth_users' stands twice",
            id="a key written twice",
        ),
        pytest.param(
            "a: [", "line 1: expected the node content, but found '<stream end>'", id="no YAML"
        ),
        pytest.param(
            "[]", "Input should be a valid dictionary or instance of WebConfig", id="no mapping"
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """Every mistake is told by its key, with the remedy, and never with a secret."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_web_config(path)
    assert str(caught.value) == f"{path}: {problem}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that does not exist is an error, never open access."""
    with pytest.raises(ConfigError, match=r"nowhere\.yml: can't be read: No such file"):
        WebConfigFile(tmp_path / "nowhere.yml")


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    """A file in another encoding is named."""
    path = tmp_path / "web.yml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_web_config(path)


def replace_file(path: Path, text: str) -> None:
    """Put a new file in the place of the old one, as editors and Kubernetes do."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)  # noqa: PTH105  (the call that is atomic)


def test_the_file_is_read_again(tmp_path: Path) -> None:
    """A changed file counts at once; a bad one closes the page until it is mended, logged once."""
    path = write(tmp_path, USERS)
    config = WebConfigFile(path)
    assert config.current() is config.current()
    assert set(config.current().users) == {"prometheus"}
    replace_file(path, USERS.replace("prometheus", "alice"))
    assert set(config.current().users) == {"alice"}
    replace_file(path, "nonsense: 1\n")
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(ConfigError):
                config.current()
    assert len(logs) == 1
    path.unlink()
    with capture_logs(), pytest.raises(ConfigError):
        config.current()
    replace_file(path, USERS)
    assert set(config.current().users) == {"prometheus"}


def test_users_can_not_vanish_from_an_open_address(tmp_path: Path) -> None:
    """A file that lost its users is refused where it would open the page to other machines."""
    path = write(tmp_path, USERS)
    everywhere = Address("0.0.0.0", 9787)
    config = WebConfigFile(path, lambda read: check_bind(everywhere, read, allow=False))
    assert config.current().users
    replace_file(path, "")
    with capture_logs(), pytest.raises(ConfigError, match="nobody has to log in"):
        config.current()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        pytest.param("127.0.0.1:9787", "127.0.0.1", 9787, id="IPv4"),
        pytest.param("[::1]:0", "::1", 0, id="IPv6 in brackets"),
        pytest.param("localhost:80", "localhost", 80, id="a name"),
        pytest.param(":9787", "0.0.0.0", 9787, id="no host is every interface"),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    """Addresses read as the Prometheus family writes them, and print the same way."""
    address = parse_address(text)
    assert address == Address(host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "9787", "::1:9787", "host", "host:", "host:65536", "[x:1"])
def test_addresses_that_are_none(text: str) -> None:
    """What is no address names the option and shows a right one."""
    with pytest.raises(ConfigError, match=r"--web.listen-address: .*127\.0\.0\.1:9787"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "text", "allow", "accepted"),
    [
        pytest.param("127.0.0.1", "", False, True, id="loopback needs nothing"),
        pytest.param("127.8.8.8", "", False, True, id="all of 127/8 is loopback"),
        pytest.param("::1", "", False, True, id="so is ::1"),
        pytest.param("localhost", "", False, True, id="so is localhost"),
        pytest.param("0.0.0.0", "", False, False, id="every interface is refused"),
        pytest.param("::", "", False, False, id="in IPv6 too"),
        pytest.param("10.0.0.1", "", False, False, id="a private network is other machines"),
        pytest.param("myhost", "", False, False, id="a name is not trusted to be loopback"),
        pytest.param("0.0.0.0", "", True, True, id="unless it is allowed"),
        pytest.param("0.0.0.0", USERS, False, True, id="users open it"),
        pytest.param("0.0.0.0", CLIENT_TLS, False, True, id="client certificates open it"),
        pytest.param("0.0.0.0", TLS, False, False, id="a server certificate alone does not"),
        pytest.param(
            "0.0.0.0",
            CLIENT_TLS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
            False,
            False,
            id="nor does a client certificate that may be missing",
        ),
    ],
)
def test_who_may_listen(
    tmp_path: Path, *, host: str, text: str, allow: bool, accepted: bool
) -> None:
    """Nobody reads the pages from another machine without logging in, unless told so."""
    config = load_web_config(write(tmp_path, text))
    if accepted:
        check_bind(Address(host, 9787), config, allow=allow)
        return
    with pytest.raises(ConfigError, match=r"--web\.allow-unauthenticated"):
        check_bind(Address(host, 9787), config, allow=allow)
