"""``grace --prometheus.url``: a real Prometheus with a history of days, written by promtool."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from cli_session import Answer, run
from pages import Reply, serving
from servers import fetch, free_port, program, running, wait_until

pytestmark = pytest.mark.servers

AT: Final = 1_700_000_000
HOUR: Final = 3600
DAY: Final = 86400
EDGES: Final = ("0.5", "0.75", "1.0", "600.0", "+Inf")

Counts = tuple[int, int, int, int, int]
"""Cumulative, by edge."""

SERVICES: Final[dict[str, dict[str, Mapping[int, Counts]]]] = {
    # Of each service, of each instance: the buckets from so many hours before the end on.
    "fast": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)}},
    "replicas": {
        "a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)},
        "b": {80: (0, 0, 0, 0, 0), 60: (700, 880, 900, 900, 900)},
    },
    "reset": {
        "a": {
            200: (0, 0, 0, 0, 0),
            90: (500, 990, 1000, 1000, 1000),
            # It fell and then rose beyond: the ends alone would show 100 too few.
            50: (100, 100, 100, 100, 100),
            40: (600, 1090, 1100, 1100, 1100),
        }
    },
    "history": {"a": {300: (9000, 9000, 9000, 9000, 9000), 90: (9400, 9400, 9400, 9400, 9400)}},
    "born": {"a": {20: (40, 50, 60, 60, 60)}},
    "slow": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1000, 1000, 1000, 1100)}},
    "blind": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)}},
    "stuck": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)}},
    "cut": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)}},
    "odd": {"a": {200: (0, 0, 0, 0, 0), 90: (1000, 1980, 2000, 2000, 2000)}},
    # The first was fast; the one that took its place is slow.
    "replaced": {
        "a": {160: (0, 0, 0, 0, 0), 150: (2000, 2000, 2000, 2000, 2000)},
        "b": {40: (0, 0, 0, 0, 0), 30: (100, 100, 100, 1000, 1000)},
    },
}
OPEN: Final = {"stuck": 100, "replicas": 2, "odd": "NaN"}
GONE: Final = {("replaced", "a"): 60}
"""Who was scraped no more, and since how many hours."""


def history() -> Iterator[str]:
    """Yield samples each hour, as OpenMetrics with timestamps."""
    name = "orphan_cancel_propagation_seconds_bucket"
    for service, instances in SERVICES.items():
        for instance, steps in instances.items():
            labels = f'service="{service}",instance="{instance}",pool="overflow"'
            for place, edge in enumerate(EDGES):
                if (service, edge) == ("cut", "+Inf"):
                    continue
                for ago in range(max(steps), GONE.get((service, instance), 0) - 1, -1):
                    since = min(start for start in steps if start >= ago)
                    value = steps[since][place]
                    yield f'{name}{{{labels},le="{edge}"}} {value} {AT - ago * HOUR}'
    for service, instances in SERVICES.items():
        for instance, steps in instances.items():
            labels = f'service="{service}",instance="{instance}",pool="overflow"'
            opened = OPEN.get(service, 0) if instance == "a" else 1
            for ago in range(max(steps), -1, -1):
                if service != "blind":
                    stamp = AT - ago * HOUR
                    yield f"orphan_cancel_propagation_open{{{labels}}} {opened} {stamp}"
    yield f'orphan_grace_seconds{{service="born",pool="overflow",source="proposal"}} 4 {AT}'
    yield "# EOF"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Prometheus that has the history."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history.txt").write_text("\n".join(history()) + "\n", encoding="utf-8")
    (folder / "prometheus.yml").write_text("scrape_configs: []\n", encoding="utf-8")
    data = folder / "tsdb"
    command = ["tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=720h"]
    subprocess.run(
        [program("promtool"), *command, folder / "history.txt", data],
        check=True,
        capture_output=True,
    )
    port = free_port()
    prometheus = [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    prometheus += [f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=100y"]
    prometheus += [f"--web.listen-address=127.0.0.1:{port}"]
    with running(prometheus, folder / "prometheus.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until("Prometheus' start", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield url


def asked(folder: Path, server: str, service: str, *more: str) -> Answer:
    """Return what is said of a service."""
    options = ("--prometheus.url", server, "--selector", f'service="{service}"', "--at", str(AT))
    return run(folder, "grace", *options, *more)


def found(folder: Path, server: str, service: str, *more: str) -> dict[str, Any]:
    """Return what is found of the overflow pool."""
    answer = asked(folder, server, service, "--format", "json", *more)
    pools: dict[str, dict[str, Any]] = json.loads(answer.out)["pools"]
    assert list(pools) == ["overflow"]
    return pools["overflow"]


def test_the_upper_edges_count(server: str, tmp_path: Path) -> None:
    """Of 2,000, half within 0.5 s and 1,980 within 0.75 s: 99 % by then, 95 % sure by 1 s."""
    assert found(tmp_path, server, "fast") == {
        "quantile": 0.99,
        "estimate_seconds": 0.75,
        "upper_seconds": 1.0,
        "in_force_seconds": 1.5,
        "settled": 2000,
        "open": 0,
        "status": "measured",
        "reason": "2000 settled and 0 open carry the quantile",
        "source": "prometheus",
    }
    answer = asked(tmp_path, server, "fast")
    assert answer.code == 0
    assert "carry the quantile; read from buckets, the bound's is 250ms wide" in answer.out
    assert "Note" not in answer.out


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        pytest.param("replicas", (2000, 2), id="of two replicas the larger counts, not the sum"),
        pytest.param("reset", (2100, 0), id="after a reset a counter goes on from nothing"),
        pytest.param("history", (400, 0), id="what it held before the window is not counted"),
        pytest.param("born", (60, 0), id="the first value of a series born in it is"),
        pytest.param("slow", (1100, 0), id="those beyond the last edge have settled"),
        pytest.param("blind", (2000, None), id="without the gauge the open ones are unknown"),
        pytest.param("stuck", (2000, 100), id="open ones are those of the gauge"),
        pytest.param("cut", (None, 0), id="without the bucket of +Inf the slow ones are unknown"),
        pytest.param("odd", (2000, None), id="open ones that are no number are unknown"),
        pytest.param("replaced", (3000, 1), id="who took another's place adds what it counted"),
    ],
)
def test_how_many(
    service: str, expected: tuple[int | None, int | None], server: str, tmp_path: Path
) -> None:
    """Settled within the last 7 d, and open now."""
    pool = found(tmp_path, server, service)
    assert (pool["settled"], pool["open"]) == expected


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        pytest.param("slow", "the curve ends at 90.91 %", id="beyond the last edge is not reached"),
        pytest.param("stuck", "the curve ends at 95.24 %", id="nor is what never stops"),
        pytest.param(
            "blind", "unknown: orphan_cancel_propagation_open is absent", id="nor what is unknown"
        ),
        pytest.param(
            "cut",
            'unknown: orphan_cancel_propagation_seconds_bucket has no le="+Inf"',
            id="nor where the slowest were dropped",
        ),
        pytest.param(
            "odd", "unknown: orphan_cancel_propagation_open is absent", id="nor what is no number"
        ),
    ],
)
def test_what_can_t_be_measured(service: str, reason: str, server: str, tmp_path: Path) -> None:
    """It stays a proposal, and null is what the curve does not reach."""
    pool = found(tmp_path, server, service)
    assert pool["status"] == "proposal"
    assert pool["estimate_seconds"] is None
    assert reason in pool["reason"]
    assert asked(tmp_path, server, service).code == (2 if reason.startswith("unknown") else 0)


def test_a_slow_successor_is_not_lost_behind_a_fast_predecessor(
    server: str, tmp_path: Path
) -> None:
    """A pod that was replaced carries on under another name, and so does the measuring."""
    assert found(tmp_path, server, "replaced")["estimate_seconds"] == 600.0


def test_what_a_young_exporter_has_is_said(server: str, tmp_path: Path) -> None:
    """And the grace in force is what it says itself."""
    answer = asked(tmp_path, server, "born")
    assert "Note: the server's samples begin at 2023-11-14T02:13:20Z and not 7d ago" in answer.out
    assert found(tmp_path, server, "born")["in_force_seconds"] == 4.0


def test_several_services_are_told_apart(server: str, tmp_path: Path) -> None:
    """None is taken for another in silence."""
    answer = run(tmp_path, "grace", "--prometheus.url", server, "--at", str(AT))
    assert f"Note: there are {len(SERVICES)} services, told apart by service" in answer.out


def test_a_config_gives_its_settings(server: str, tmp_path: Path) -> None:
    """Window, quantile, selector and pools; what is saved is bound to it, and it reads it."""
    config = tmp_path / "orphanwatch.yml"
    text = (
        "pools: {overflow: {role: overflow}}\n"
        "stores: {queue: {type: sql, url: 'sqlite:///stack.db'}}\n"
        "grace_quantile: 0.95\ngrace_window: 30d\nselector: 'service=\"history\"'\n"
    )
    config.write_text(text, encoding="utf-8")
    options = ("--config.file", "orphanwatch.yml", "--prometheus.url", server, "--at", str(AT))
    answer = run(tmp_path, "grace", *options, "--save", "grace.yml")
    assert "overflow  measured  750ms     500ms    500ms    9,400     0" in answer.out
    assert "other     unknown: the server has no samples of this pool" not in answer.out
    assert answer.code == 2  # of pool other nothing is known
    config.write_text(text + "grace: {file: grace.yml}\n", encoding="utf-8")
    checked = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    assert "wrong  grace.file" in checked.out  # expired by now: it was measured in 2023
    assert "has expired: valid until 2023-12-14" in checked.out


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(
            Reply(body=b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
            "the server has no orphan_cancel_propagation_seconds_bucket of the last 7d",
            id="nothing is scraped",
        ),
        pytest.param(Reply(body=b"<html>"), "not as Prometheus does", id="it is no Prometheus"),
        pytest.param(
            Reply(body=b'{"data":{"result":[{"metric":{},"value":[1,"x"]}]}}'),
            "not as Prometheus does",
            id="its numbers are none",
        ),
        pytest.param(
            Reply(body=b'{"data":{"result":[{"metric":[],"value":[1,"2"]}]}}'),
            "not as Prometheus does",
            id="its labels are none",
        ),
        pytest.param(
            Reply(body=b'{"data":{"result":[{"metric":{"pool":"a"},"value":[1,"2"]}]}}'),
            "has no upper edge as its label le",
            id="its buckets have no edge",
        ),
    ],
)
def test_a_server_that_can_t_say(reply: Reply, said: str, tmp_path: Path) -> None:
    """Exit code 2, with the remedy."""
    with serving() as pages:
        pages.replies["/api/v1/query"] = reply
        answer = run(tmp_path, "grace", "--prometheus.url", pages.url(""))
    assert answer.code == 2
    assert said in answer.err
