"""``drill run --target``: a real nginx, a real engine behind it, clients that really leave."""

import json
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from cli_session import PROGRAM, Answer, run
from drill_gateway import TOKEN, RealGateway, Ways, running_gateway
from pages import self_signed
from servers import free_port, program, wait_until

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config_drill import DrillTarget
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.target_client import Client, Told
from orphanwatch.exporter.drill.target_fixture import prompt_of, tokens_of
from orphanwatch.exporter.drill.target_requests import Budget, plan_of
from orphanwatch.exporter.errors import ConfigError, DrillError
from orphanwatch.exporter.instants import micros, seconds

pytestmark = pytest.mark.servers

KNOBS: Final = "{deadline: 8s, cancel_at: 1s, retry_after: 200ms, answer_tokens: 200}"


def drill(gateway: RealGateway, *options: str, url: str = "", knobs: str = KNOBS) -> Answer:
    """Rehearse on a gateway, faster than in earnest."""
    (gateway.folder / "knobs.yml").write_text(knobs, encoding="utf-8")
    arguments = ["--config.file", "orphanwatch.yml", "--drill.file", "knobs.yml"]
    arguments += ["--target", url or gateway.url, *options]
    return run(gateway.folder, "drill", "run", *arguments, DRILL_TOKEN=TOKEN)


def reported(gateway: RealGateway, answer: Answer) -> Any:
    """Return what ``--report r.json`` has written; the answer tells where there is nothing."""
    assert (gateway.folder / "r.json").exists(), answer.err
    return json.loads((gateway.folder / "r.json").read_text(encoding="utf-8"))


def charged_after(gateway: RealGateway, request: Any, instant: float) -> float:
    """Return what the ledger itself says of a request."""
    with closing(sqlite3.connect(gateway.folder / "stack.db")) as books:
        [(tokens,)] = books.execute(
            "SELECT sum(tokens) FROM ledger WHERE task_id = ? AND charged_at > ?",
            (request["task_id"], instant),
        )
    return float(tokens)


def test_a_gateway_that_honours_a_disconnect_is_promoted(tmp_path: Path) -> None:
    """Nginx makes its own ids, as its page says, and the drill's are found by their retry id."""
    with running_gateway(tmp_path, Ways()) as gateway:
        answer = drill(gateway, "--report", "r.json")

    report = reported(gateway, answer)
    assert (answer.code, answer.err) == (0, ""), answer.out
    assert f"{gateway.url}: shed within grace; promoted\n" in answer.out
    assert "found: gateway 3 of 3, leases 3 of 3, ledger 3 of 3\n" in answer.out
    assert "Nothing was written into any store" in answer.out
    assert TOKEN not in answer.out + json.dumps(report)
    assert report["orphan_token_delta"] == 0
    first, second, retry = report["requests"]
    for request in (first, second):
        assert request["task_id"].startswith("orphanwatch-target-")
        assert len(request["store_id"]) == 32
        assert 1 <= request["left_s"] < 2
        assert 0 < request["events"] <= 48
        assert request["propagation_s"] < 1
    assert (retry["left_s"], retry["events"]) == (None, 200)
    assert retry["retry_id"] == first["retry_id"] != second["retry_id"]

    arrived = gateway.engine.arrived
    assert [one.is_gone for one in arrived] == [True, True, False]
    assert [one.headers["X-Retry-Attempt"] for one in arrived] == ["1", "1", "2"]
    assert {one.headers["X-Retry-Id"] for one in arrived} == {
        first["retry_id"],
        second["retry_id"],
    }
    assert {one.path for one in arrived} == {"/v1/chat/completions"}
    assert {one.body["max_tokens"] for one in arrived} == {200}


def test_one_that_ignores_it_misses_the_cancel(tmp_path: Path) -> None:
    """Its tokens are counted past the cutoff by exporter and drill; nginx takes our ids here."""
    with running_gateway(tmp_path, Ways(honours=False), keeps_id=True) as gateway:
        answer = drill(gateway, "--report", "r.json")

    report = reported(gateway, answer)
    assert (answer.code, answer.err) == (1, ""), answer.out
    assert f"{gateway.url}: cancel missed; not promoted\n" in answer.out
    assert "hop cancel_channel: " in answer.out
    assert "tokens were charged a grace or more after its client left" in answer.out
    assert "can't see this" not in answer.out
    left = report["requests"][:2]
    assert [one["store_id"] for one in left] == [one["task_id"] for one in left]
    for one in left:
        cutoff = datetime.fromisoformat(one["sent_at"]).timestamp() + one["left_s"] + 1
        assert one["orphan_tokens"] == pytest.approx(charged_after(gateway, one, cutoff), abs=4)
        assert one["orphan_tokens"] >= 60
    assert report["orphan_token_delta"] >= max(one["orphan_tokens"] for one in left)


def test_a_proxy_that_does_not_notice_is_found_out_by_the_drill_alone(tmp_path: Path) -> None:
    """The engine would stop; nginx reads on for it, and writes the cancel down when all is over."""
    with running_gateway(tmp_path, Ways(), reads_on=True) as gateway:
        answer = drill(gateway, "--report", "r.json")

    assert (answer.code, answer.err) == (1, ""), answer.out
    assert "cancel missed; not promoted" in answer.out
    assert "orphan_token_delta can't see this: the gateway took" in answer.out
    assert reported(gateway, answer)["orphan_token_delta"] == 0


def test_a_store_that_shows_none_of_the_requests_leaves_it_open(tmp_path: Path) -> None:
    """The ledger is keyed by worker: a zero that nothing joins is no proof."""
    with running_gateway(tmp_path, Ways(keyed=False)) as gateway:
        answer = drill(gateway, "--bound", "7")

    assert (answer.code, answer.err) == (2, ""), answer.out
    assert f"{gateway.url}: can't tell; not promoted\n" in answer.out
    assert "ledger 0 of 3" in answer.out
    assert "store ledger: none of the 3 requests is in it" in answer.out
    assert "docs/identity.md" in answer.out


@pytest.mark.parametrize(
    ("ways", "knobs", "said"),
    [
        pytest.param(
            Ways(silent=True), KNOBS, "no token had come when its client left", id="no token came"
        ),
        pytest.param(
            Ways(),
            "{deadline: 8s, cancel_at: 1s, answer_tokens: 60}",
            "its answer would have ended by itself",
            id="the answer was nearly over",
        ),
    ],
)
def test_work_that_would_have_stopped_anyway_proves_nothing(
    tmp_path: Path, ways: Ways, knobs: str, said: str
) -> None:
    """No charge past the cutoff, and yet no promotion."""
    with running_gateway(tmp_path, ways) as gateway:
        answer = drill(gateway, "--bound", "3", knobs=knobs)

    assert (answer.code, answer.err) == (2, ""), answer.out
    assert said in answer.out


def test_an_answer_that_ends_too_early_is_no_rehearsal(tmp_path: Path) -> None:
    """Nobody could leave it."""
    with running_gateway(tmp_path, Ways(answer_tokens=12)) as gateway:
        answer = drill(gateway)

    assert (answer.code, answer.out) == (2, "")
    assert "the answer ended after 12 events, before its client left at 1s" in answer.err
    assert len(gateway.engine.arrived) == 2


def test_a_refused_credential_is_said_without_it(tmp_path: Path) -> None:
    """And nothing is retried."""
    with running_gateway(tmp_path, Ways()) as gateway:
        gateway.configure(token="sk-wrong")  # noqa: S106  (made up)
        answer = drill(gateway)

    assert (answer.code, answer.out) == (2, "")
    assert "refuses our credentials (401 Unauthorized)" in answer.err
    assert "sk-wrong" not in answer.err
    assert {one.headers["X-Retry-Attempt"] for one in gateway.engine.arrived} == {"1"}


def test_what_is_not_allowed_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """Another address, one cap or the other, and stores that can't be read; a dry run neither."""
    with running_gateway(tmp_path, Ways()) as gateway:
        other = drill(gateway, url=f"http://me:secret@127.0.0.1:{free_port()}/v1?key=secret")
        gateway.configure(most_requests=2)
        many = drill(gateway)
        gateway.configure(most_tokens=2999)
        long = drill(gateway)
        gateway.configure(headers={"X-Api-Key": "secret"})
        dry = drill(gateway, "--dry-run", url=f"{gateway.url}/")
        (tmp_path / "stack.db").rename(tmp_path / "elsewhere.db")
        blind = drill(gateway)

    assert gateway.engine.arrived == []
    assert [other.code, many.code, long.code, blind.code] == [2, 2, 2, 2]
    assert "the config does not name this address" in other.err
    assert "secret" not in other.err
    assert "most_requests is 2; lower clients, or raise most_requests" in many.err
    assert "3 requests of 800 prompt tokens and 200 answer tokens are up to 3000" in long.err
    assert "nothing was sent, since nothing would be seen: store leases" in blind.err
    assert dry.code == 0
    assert dry.out.count("POST /v1/chat/completions\n") == 3
    assert "3000 in all; the caps are 4 requests and 4000 tokens\n" in dry.out
    assert "2 at once, whose clients close the connection 1s later\n" in dry.out
    assert "1 retry of the first, 0.2s after that, which is read to its end\n" in dry.out
    assert dry.out.count("Authorization: <hidden>\n") == 3
    assert dry.out.count("X-Api-Key: <hidden>\n") == 3
    assert TOKEN not in dry.out
    assert "secret" not in dry.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("--target http://x", "needs the --config.file", id="no config"),
        pytest.param("--dry-run", "--dry-run only goes with --target", id="a dry run of the stack"),
        pytest.param("--bound 5", "--bound only goes with --target", id="a bound of the stack"),
        pytest.param("--target http://x --fault drop-cancel", "--fault is of no use", id="a fault"),
        pytest.param("--target http://x --speed 2", "--speed is of no use", id="another clock"),
    ],
)
def test_options_of_the_two_kinds_of_drill_do_not_mix(
    tmp_path: Path, arguments: str, said: str
) -> None:
    """On a real gateway nothing is broken on purpose."""
    answer = run(tmp_path, "drill", "run", *arguments.split())
    assert answer.code == 2
    assert said in answer.err


def test_ctrl_c_closes_every_connection(tmp_path: Path) -> None:
    """The engine sees its clients go, and no retry comes."""
    with running_gateway(tmp_path, Ways()) as gateway:
        file = tmp_path / "orphanwatch.yml"
        file.write_text(file.read_text().replace("${DRILL_TOKEN}", TOKEN))
        process = subprocess.Popen(
            [PROGRAM, "drill", "run", "--config.file", file, "--target", gateway.url],
            stderr=subprocess.PIPE,
        )
        wait_until("both requests", lambda: len(gateway.engine.arrived) == 2, 20)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        wait_until("their end", lambda: all(one.is_gone for one in gateway.engine.arrived), 10)
        time.sleep(1)

    assert process.returncode == 2
    assert b"Aborted" in said
    assert len(gateway.engine.arrived) == 2


def target(**settings: Any) -> DrillTarget:
    """Return a target with few settings."""
    return DrillTarget.model_validate({"url": "http://127.0.0.1/v1", "model": "m", **settings})


@contextmanager
def dripping(folder: Path, *, tls: bool) -> Iterator[tuple[str, Path, list[float]]]:
    """Run a bare server that drips events, and notes when it is told that its client has gone."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    if tls:
        command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
        command += ["-days", "2", "-keyout", str(key), "-out", str(certificate)]
        command += ["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(command, check=True, capture_output=True)
    noted: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
            if context is not None:
                context.load_cert_chain(certificate, key)
            with context.wrap_socket(plain, server_side=True) if context else plain as peer:
                while b"tell" not in peer.recv(65536):
                    pass
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                peer.settimeout(0.05)
                while not noted:
                    peer.sendall(b"data: x\n\n")
                    try:
                        gone = peer.recv(1) == b""
                    except TimeoutError:
                        continue
                    except OSError:
                        gone = True
                    if gone:
                        noted.append(time.time())

        thread = threading.Thread(target=serve)
        thread.start()
        scheme = "https" if tls else "http"
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", certificate, noted
        thread.join(10)


@pytest.mark.parametrize("tls", [False, True], ids=["in plain", "over TLS"])
def test_to_leave_is_to_close_the_connection(tmp_path: Path, *, tls: bool) -> None:
    """The other end is told at that very moment, in the middle of the stream."""
    with dripping(tmp_path, tls=tls) as (url, certificate, noted):
        at = target(url=url, ca_file=str(certificate) if tls else None, prompt="tell")
        plan = plan_of(at, Knobs())
        told = Client(at, wall_clock).ask(plan.asks[0], plan.body, micros(0.5))
        wait_until("its end", lambda: bool(noted), 5)

    assert (told.problem, told.ended_at) == ("", None)
    assert told.left_at is not None
    assert told.events > 0
    assert 0.5 <= seconds(told.left_at - told.sent_at) < 2
    assert noted[0] - seconds(told.left_at) < 1


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return two certificates with their keys, and files of which nothing can be made."""
    folder = tmp_path_factory.mktemp("signed")
    ours, theirs = (self_signed(folder, name) for name in ("ours", "theirs"))
    (folder / "text").write_text("no PEM\n", encoding="utf-8")
    return {
        "cert": ours.cert,
        "key": ours.key,
        "other key": theirs.key,
        "text": folder / "text",
        "none": folder / "none",
    }


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param(
            {"ca_file": "none", "cert_file": "cert", "key_file": "key"},
            "ca_file {none} can't be read (No such file or directory); "
            "check the path and permissions",
            id="no ca_file",
        ),
        pytest.param(
            {"ca_file": "cert", "cert_file": "none", "key_file": "key"},
            "cert_file {none} can't be read (No such file or directory); "
            "check the path and permissions",
            id="no cert_file",
        ),
        pytest.param(
            {"ca_file": "cert", "cert_file": "cert", "key_file": "none"},
            "key_file {none} can't be read (No such file or directory); "
            "check the path and permissions",
            id="no key_file",
        ),
        pytest.param(
            {"ca_file": "text"},
            "ca_file {text} holds no certificates in PEM; check it",
            id="nothing in ca_file",
        ),
        pytest.param(
            {"cert_file": "text", "key_file": "key"},
            "cert_file {text} holds no certificate in PEM; check it",
            id="nothing in cert_file",
        ),
        pytest.param(
            {"cert_file": "cert"},
            "cert_file {cert} holds no key of its certificate; write key_file",
            id="a certificate without its key",
        ),
        pytest.param(
            {"cert_file": "cert", "key_file": "other key"},
            "key_file {other key} holds no key of the certificate in cert_file; check it",
            id="somebody else's key",
        ),
    ],
)
def test_a_file_for_tls_is_named_alone(
    files: dict[str, str], said: str, signed: dict[str, Path]
) -> None:
    """Of three files the one that is at fault, with its path, before anything is sent."""
    settings = {key: str(signed[name]) for key, name in files.items()}
    with pytest.raises(DrillError) as refused:
        ask_once(target(url="https://127.0.0.1/v1", **settings))
    expected = said
    for name, path in signed.items():
        expected = expected.replace(f"{{{name}}}", str(path))
    assert str(refused.value) == f"drill.targets: {expected}"


def ask_once(at: DrillTarget) -> Told:
    """Return what one client is told that would leave after five seconds."""
    plan = plan_of(at, Knobs())
    return Client(at, wall_clock).ask(plan.asks[0], plan.body, micros(5))


def test_a_gateway_that_is_not_there_is_said_by_its_host() -> None:
    """Host and port, never the whole address."""
    port = free_port()
    told = ask_once(target(url=f"http://127.0.0.1:{port}/v1?key=secret"))
    assert told.problem == (
        f"127.0.0.1:{port} refuses the connection; check the url, and that it runs"
    )
    assert told.left_at is None


def test_a_header_that_cannot_be_sent_is_not_shown() -> None:
    """A secret file with a line break in it is no reason to print it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        told = ask_once(target(url=url, headers={"X-Api-Key": "sk-1\nsk-2"}))
    assert "can't be sent; look for line breaks" in told.problem
    assert "sk-" not in told.problem


def test_the_caps_hold_whoever_sends() -> None:
    """Beyond the plan too: they are asked before each request."""
    budget = Budget(target(most_requests=3, most_tokens=2500))
    budget.take(1200)
    budget.take(1200)
    with pytest.raises(DrillError, match="most_tokens is reached"):
        budget.take(1200)
    budget.take(100)
    with pytest.raises(DrillError, match="most_requests or"):
        budget.take(0)


def test_the_fixture_is_the_same_each_time_and_as_long_as_it_says() -> None:
    """Words and marks, each of which is a token."""
    prompt = prompt_of(800)
    assert prompt == prompt_of(800)
    words = prompt.split()
    assert len(words) + sum(word.endswith((".", ",")) for word in words) == 800
    assert prompt.endswith("do not stop until you are told to stop.")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abc", 2), ("\u7231\u7231", 3)],
    ids=["nothing", "letters", "signs of three bytes"],
)
def test_a_prompt_of_ones_own_is_counted_high(text: str, tokens: int) -> None:
    """One token for each two bytes."""
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("url", "same"),
    [
        pytest.param("https://gw.example.com/v1/", True, id="a slash at the end"),
        pytest.param("https://GW.example.com:443/v1", True, id="host and port spelled otherwise"),
        pytest.param("https://gw.example.com/v1/chat/completions", True, id="the whole endpoint"),
        pytest.param("http://gw.example.com/v1", False, id="without TLS"),
        pytest.param("https://gw.example.com/v2", False, id="another path"),
        pytest.param("https://gw.example.com.evil/v1", False, id="another host"),
        pytest.param("https://me@gw.example.com/v1", False, id="with credentials"),
        pytest.param("https://gw.example.com:x/v1", False, id="no address at all"),
    ],
)
def test_a_target_is_named_by_its_address(url: str, *, same: bool) -> None:
    """However its end and its host are written, and in no other way."""
    assert target(url="https://gw.example.com/v1").is_at(url) is same


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param("url: 'http://x/v1'", "targets.0.model: is missing", id="no model"),
        pytest.param(
            "url: 'http://a:b@x/v1', model: m", "holds credentials", id="credentials in the url"
        ),
        pytest.param(
            "url: 'http://x/v1', model: m, id_header: X-Retry-Id",
            "must all differ",
            id="one header twice",
        ),
        pytest.param(
            "url: 'http://x/v1', model: m, retry_header: 'a b'", "retry_header: ", id="no header"
        ),
    ],
)
def test_a_wrong_target_is_refused_with_its_key(tmp_path: Path, settings: str, said: str) -> None:
    """As everything else in the config."""
    file = tmp_path / "orphanwatch.yml"
    file.write_text(
        "stores: {queue: {type: sql, url: 'sqlite:///s.db'}}\n"
        f"drill: {{targets: [{{{settings}}}]}}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=said):
        load_config(file, {})


def test_credentials_come_from_a_file_beside_the_config(tmp_path: Path) -> None:
    """So do certificates."""
    file = tmp_path / "orphanwatch.yml"
    file.write_text(
        "stores: {queue: {type: sql, url: 'sqlite:///s.db'}}\n"
        "drill: {targets: [{url: 'https://x/v1', model: m, token_file: key, ca_file: ca.pem}]}\n",
        encoding="utf-8",
    )
    (tmp_path / "key").write_text("sk-hunter2\n", encoding="utf-8")
    [found] = load_config(file, {}).drill.targets
    assert found.token is not None
    assert found.token.get_secret_value() == "sk-hunter2"
    assert found.ca_file == str(tmp_path / "ca.pem")
