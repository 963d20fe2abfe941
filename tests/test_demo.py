"""``orphanwatch demo``, the real program: it runs by itself, says what is wrong, and tidies up."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("orphanwatch")
PATIENCE_SECONDS = 60


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Return a running demo, on a free port, whose temporary files lie in ``folder``."""
    process = subprocess.Popen(
        [PROGRAM, "demo", "--web.listen-address", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run(*options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Return a demo that has ended by itself."""
    environment = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run(
        [PROGRAM, "demo", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env=environment,
    )


def line_with(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Return the first line of the output that fits; the test fails if it ends before."""
    seen = []
    for line in process.stdout or ():
        seen.append(line)
        match = re.search(pattern, line)
        if match:
            return match
    pytest.fail(f"no line with {pattern!r} in {''.join(seen)}")


def fetch(url: str) -> str:
    """Return a page."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  (addresses of ours)
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_serves_its_stack_until_it_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    """The pages answer with a verdict; then it ends with 0 and leaves no file behind."""
    with demo(tmp_path) as process:
        url = line_with(process, r"Status page +(http://\S+)")[1]
        line_with(process, r"Z  scale")
        assert "scale" in fetch(url)
        assert 'orphan_store_up{store="ledger"} 1' in fetch(f"{url}metrics")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}-/reload", data=b"", timeout=10)  # noqa: S310  (likewise)
        said = refused.value.read().decode()
        assert (refused.value.code, "keeps the config" in said, "--" in said) == (403, True, False)
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_its_config_serves_the_other_commands(tmp_path: Path) -> None:
    """While it runs, its files can be looked at with ``snapshot``; its pages name them."""
    kept = tmp_path / "a folder"
    with demo(tmp_path, "--dir", str(kept)) as process:
        url = line_with(process, r"Status page +(http://\S+)")[1]
        page = fetch(f"{url}runbook/service-page.md")
        assert f"diagnose --config.file '{kept / 'orphanwatch.yml'}'" in page
        line_with(process, r"Z  scale")
        snapshot = subprocess.run(
            [PROGRAM, "snapshot", "--config.file", kept / "orphanwatch.yml", "--format", "json"],
            capture_output=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        assert json.loads(snapshot.stdout)["verdict"]["action"] == "scale"
        process.terminate()
        process.wait(PATIENCE_SECONDS)
    assert (kept / "stack.db").exists()


def test_it_ends_by_itself(tmp_path: Path) -> None:
    """``--for`` sets its length."""
    with demo(tmp_path, "--for", "1s") as process:
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_taken_port_is_named_with_the_remedy() -> None:
    """Another listener on the port is an error that says which option to use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--web.listen-address", f"127.0.0.1:{port}")
    assert ended.returncode == 2
    assert "--web.listen-address" in ended.stderr
    assert str(port) in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--for", "3x"), "'3x' is no duration", id="a length that is none"),
        pytest.param(
            ("--web.listen-address", "nowhere"), "is no address", id="an address that is none"
        ),
        pytest.param(("--speed", "100"), "--speed", id="too fast to follow"),
        pytest.param(
            ("--with-prometheus", "--speed", "2"),
            "leave --speed at 1",
            id="prometheus can't be sped up",
        ),
    ],
)
def test_a_wrong_option_is_explained(options: tuple[str, ...], words: str) -> None:
    """It exits with 2 and names the option."""
    ended = run(*options)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_earlier_demo_is_not_overwritten(tmp_path: Path) -> None:
    """A folder with a stack in it is refused, and left as it was."""
    (tmp_path / "stack.db").write_bytes(b"precious")
    ended = run("--dir", str(tmp_path))
    assert ended.returncode == 2
    assert "name another --dir" in ended.stderr
    assert (tmp_path / "stack.db").read_bytes() == b"precious"


def test_a_missing_prometheus_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Without the program on PATH, nothing is started."""
    ended = run("--with-prometheus", path=str(tmp_path))
    assert ended.returncode == 2
    assert "install the Debian package prometheus" in ended.stderr


@pytest.mark.servers
def test_prometheus_scrapes_it_and_has_the_rules(tmp_path: Path) -> None:
    """``--with-prometheus`` runs one that sees the exporter up and the alerts loaded."""
    with demo(tmp_path, "--with-prometheus") as process:
        api = line_with(process, r"Prometheus +(http://\S+)/alerts")[1] + "/api/v1"
        rules = json.loads(fetch(f"{api}/rules?type=alert"))["data"]["groups"]
        names = {rule["name"] for group in rules for rule in group["rules"]}
        assert "OrphanTokensAccruing" in names
        assert wait_for_samples(f"{api}/query?query=orphan_token_delta")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    with pytest.raises(urllib.error.URLError):
        fetch(f"{api}/rules")
    assert list(tmp_path.iterdir()) == []


def wait_for_samples(query: str) -> bool:
    """Return whether a query has a result before patience ends."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        if json.loads(fetch(query))["data"]["result"]:
            return True
        time.sleep(0.5)
    return False
