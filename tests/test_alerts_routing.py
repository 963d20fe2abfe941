"""The Alertmanager part: valid, routed by severity, and inhibiting what it may and no more."""

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import yaml
from alert_configs import alert_config, run

from orphanwatch.alerts.artifacts import ALERTMANAGER, build
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.routing import routing
from orphanwatch.exporter.config import Config

EVIDENCE = (
    "OrphanTokensAccruing",
    "OrphanLeasesAlive",
    "OrphanSplitSignal",
    "OrphanDuplicateDecoders",
)
NOTICES = ("OrphanGraceUnmeasured", "OrphanOverflowClosed")
OTHERS_OF_OURS = ("OrphanShedOverdue", "OrphanWasteBudgetBurn", "OrphanDetectorBlind")


@pytest.mark.parametrize(
    "matcher",
    [
        pytest.param(alert_config().capacity_alerts, id="the default"),
        pytest.param('team="capacity", alertname!="Quiet"', id="two matchers"),
        pytest.param(r'alertname=~"Scale\\d+"', id="an escaped backslash"),
        pytest.param("team=capacity", id="a bare value"),
    ],
)
def test_amtool_accepts_the_file(matcher: str, tmp_path: Path) -> None:
    """A matcher that we let through is one that Alertmanager can read."""
    write(alert_config(capacity_alerts=matcher), tmp_path)
    checked = run(tmp_path, "amtool", "check-config", ALERTMANAGER)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("severity", "receiver"),
    [
        pytest.param("critical", "orphanwatch-page", id="critical pages"),
        pytest.param("warning", "orphanwatch-ticket", id="a warning is a ticket"),
        pytest.param("info", "orphanwatch-notice", id="info is a notice"),
    ],
)
def test_the_severity_decides_who_is_told(severity: str, receiver: str, tmp_path: Path) -> None:
    """Alertmanager's own router sends each severity to a receiver of its own."""
    write(alert_config(), tmp_path)
    labels = ("alertname=OrphanTokensAccruing", f"severity={severity}")
    routed = run(
        tmp_path, "amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels
    )
    assert routed.stdout.strip() == receiver


@pytest.mark.servers
@pytest.mark.parametrize(
    ("source", "inhibited"),
    [
        pytest.param(
            "OrphanDetectorBlind", {*NOTICES, "ScaleUpPool"}, id="blindness spares all evidence"
        ),
        pytest.param("OrphanTokensAccruing", {"ScaleUpPool"}, id="tokens stop capacity alerts"),
        pytest.param("OrphanLeasesAlive", {"ScaleUpPool"}, id="leases stop capacity alerts"),
        pytest.param("OrphanSplitSignal", {"ScaleUpPool"}, id="the split stops capacity alerts"),
        pytest.param(
            "OrphanDuplicateDecoders", {"ScaleUpPool"}, id="duplicates stop capacity alerts"
        ),
        pytest.param("OrphanShedOverdue", set(), id="another alert stops nothing"),
    ],
)
def test_a_running_alertmanager_inhibits(source: str, inhibited: set[str], tmp_path: Path) -> None:
    """While the source fires, exactly these alerts are muted, even with a wide matcher.

    Sources other than the one under test are left out: they would mute on their own account.
    """
    wide = 'alertname=~".*(Scale|Orphan).*"'
    write(alert_config(capacity_alerts=wide), tmp_path)
    sources = {*EVIDENCE, "OrphanDetectorBlind"}
    asked = [*EVIDENCE, *NOTICES, *OTHERS_OF_OURS, "ScaleUpPool", "DiskFull"]
    firing = [name for name in asked if name == source or name not in sources]
    with alertmanager(tmp_path) as url:
        post(f"{url}/api/v2/alerts", [{"labels": {"alertname": name}} for name in firing])
        assert muted(url, len(firing)) == inhibited


@pytest.mark.servers
def test_blindness_and_evidence_at_once_reach_the_pager(tmp_path: Path) -> None:
    """A blind store never hides what the other arm still sees, nor the other way round."""
    write(alert_config(), tmp_path)
    firing = [*EVIDENCE, "OrphanDetectorBlind", "QueueDeep"]
    with alertmanager(tmp_path) as url:
        post(f"{url}/api/v2/alerts", [{"labels": {"alertname": name}} for name in firing])
        assert muted(url, len(firing)) == {"QueueDeep"}


@pytest.mark.servers
def test_a_running_alertmanager_keeps_services_apart(tmp_path: Path) -> None:
    """With the parts of two services merged, one that is blind mutes nothing of the other."""
    parts = [
        routing(alert_config(selector=f'namespace="{name}"', service=name), ALERTS)
        for name in ("chat", "code")
    ]
    merged = parts[0] | {
        "receivers": [receiver for part in parts for receiver in part["receivers"]],
        "inhibit_rules": [rule for part in parts for rule in part["inhibit_rules"]],
    }
    (tmp_path / ALERTMANAGER).write_text(yaml.safe_dump(merged))
    firing = [
        {"alertname": "OrphanDetectorBlind", "service": "chat", "namespace": "chat"},
        *(
            {"alertname": name, "service": service, "namespace": service}
            for service in ("chat", "code")
            for name in NOTICES
        ),
        # The users' own alerts know the namespace and no service of ours.
        {"alertname": "ScaleUpPool", "namespace": "chat"},
        {"alertname": "ScaleUpPool", "namespace": "code"},
    ]
    with alertmanager(tmp_path) as url:
        post(f"{url}/api/v2/alerts", [{"labels": labels} for labels in firing])
        assert muted(url, len(firing), "namespace") == {"chat"}
        assert muted(url, len(firing)) == {*NOTICES, "ScaleUpPool"}


def write(config: Config, folder: Path) -> None:
    """Write the Alertmanager part of a config."""
    (folder / ALERTMANAGER).write_text(build(config)[ALERTMANAGER])


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """Run Alertmanager on the generated file; the address, once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = (
        "prometheus-alertmanager",
        f"--config.file={ALERTMANAGER}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        f"--storage.path={folder / 'data'}",
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            until(lambda: answers(f"http://{address}/-/ready"))
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def answers(url: str) -> bool:
    """Return whether the server answers well."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310  (our own server)
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def post(url: str, body: object) -> None:
    """Post a JSON body."""
    request = urllib.request.Request(  # noqa: S310  (our own server)
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310  (our own server)


_SETTLED = 10
"""Equal answers in a row, a tenth of a second apart."""


def muted(url: str, expected: int, label: str = "alertname") -> set[str]:
    """Return a label of the inhibited alerts, once Alertmanager has looked at all.

    It takes alerts in one by one: what it says counts once it has said the same for a second.
    """
    said: list[set[str]] = []

    def has_settled() -> bool:
        asked = f"{url}/api/v2/alerts"
        with urllib.request.urlopen(asked, timeout=5) as response:  # noqa: S310  (our own server)
            listed = json.load(response)
        states = [alert["status"]["state"] for alert in listed]
        if len(states) != expected or "unprocessed" in states:
            said.clear()
            return False
        said.append({each["labels"][label] for each in listed if each["status"]["inhibitedBy"]})
        return len(said) >= _SETTLED and all(each == said[-1] for each in said[-_SETTLED:])

    until(has_settled)
    return said[-1]


def until(holds: Any) -> None:
    """Wait until something holds; a minute is more than a slow machine needs."""
    end = monotonic() + 60
    while not holds():
        assert monotonic() < end, "it did not happen within a minute"
        sleep(0.1)


def test_the_file_names_no_receiver_of_anybody(tmp_path: Path) -> None:
    """Receivers are empty shells to be filled: no address, no secret, no host."""
    write(alert_config(), tmp_path)
    text = (tmp_path / ALERTMANAGER).read_text()
    assert re.findall(r"- name: (\S+)\n", text) == [
        "orphanwatch-page",
        "orphanwatch-ticket",
        "orphanwatch-notice",
    ]
    assert "://" not in text
