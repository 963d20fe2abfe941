"""The pages on day one: served where the rules link to, with commands that work as printed."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import yaml
from artifact_configs import POOLS, STORES
from cli_session import run
from promql_facts import fenced
from runbook_pages import ALERT_NAMES, PAGES, RENDERED, elements
from servers import (
    Webhook,
    fetch,
    free_port,
    program,
    running_alertmanager,
    running_exporter,
)

from orphanwatch.alerts.artifacts import build
from orphanwatch.exporter.config_file import load_config
from orphanwatch.runbooks.render import SERVED_STATUS_PAGE, render_all

pytestmark = pytest.mark.servers


@contextmanager
def served(folder: Path) -> Iterator[tuple[Path, str]]:
    """Serve an empty stack whose rules link to the exporter itself; yield config and URL."""
    port = free_port()
    config = folder / "orphanwatch.yml"
    links = {"runbook_base_url": f"http://127.0.0.1:{port}/runbook"}
    config.write_text(yaml.safe_dump({"pools": POOLS, "stores": STORES, "links": links}))
    with running_exporter(config, port) as url:
        yield config, url


def test_each_rule_links_to_a_page_that_is_served(tmp_path: Path) -> None:
    """Every runbook_url answers with its alert's page, and so does every link on every page."""
    with served(tmp_path) as (path, url):
        config = load_config(path)
        rules = yaml.safe_load(build(config)["orphanwatch.rules.yml"])
        pages = render_all(config, str(path), SERVED_STATUS_PAGE)
        todo = {
            rule["annotations"]["runbook_url"]
            for group in rules["groups"]
            for rule in group["rules"]
            if "alert" in rule
        }
        assert {urlsplit(link).path for link in todo} == {
            f"/runbook/{name}" for name in ALERT_NAMES
        }
        seen: set[str] = set()
        while todo - seen:
            link = min(todo - seen)
            seen.add(link)
            status, text = fetch(link)
            assert status == 200, link
            name = urlsplit(link).path.removeprefix("/runbook/").removesuffix(".html")
            assert text == pages[f"{name}.html"]
            targets = {
                urljoin(link, str(attributes["href"])).partition("#")[0]
                for tag, attributes in elements(text)
                if tag == "a"
            }
            assert f"{url}/" in targets, "each page leads back to the status page"
            todo |= {target for target in targets - {f"{url}/"} if target.startswith(url)}
        assert len({urlsplit(link).path.removesuffix(".html") for link in seen}) == len(PAGES)
        assert fetch(f"{url}/runbook/OrphanGone")[0] == 404


def printed(name: str, first: str) -> list[list[str]]:
    """Return the commands of a page that begin with a word, as a shell takes them apart."""
    commands = [
        shlex.split(line)
        for text in fenced(RENDERED[f"{name}.md"], "sh")
        for line in text.splitlines()
    ]
    return [command for command in commands if command[0] == first]


def test_each_command_works_as_printed(tmp_path: Path) -> None:
    """What a page prints can be pasted where the config lies: it is understood, and answers."""
    database = "CREATE TABLE tasks (task_id); CREATE TABLE leases (task_id);"
    database += "CREATE TABLE ledger (task_id, tokens, charged_at); CREATE TABLE queue (depth);"
    subprocess.run(["sqlite3", tmp_path / "stack.db", database], check=True)
    (tmp_path / "orphanwatch.yml").write_text(yaml.safe_dump({"pools": POOLS, "stores": STORES}))
    commands = {tuple(command[1:]) for name in PAGES for command in printed(name, "orphanwatch")}
    # It plays every story of every rule, for minutes, and has tests of its own.
    played = ("alerts", "test", "--config.file", "orphanwatch.yml")
    assert played in commands
    assert {command[0] for command in commands} >= {"snapshot", "check", "diagnose", "grace"}
    for command in sorted(commands - {played}):
        answer = run(tmp_path, *command)
        # 0 and 1 are answers; 2 is a command that is not understood.
        assert answer.code in {0, 1}, f"{command}: {answer.err}"
        assert answer.out, command


def test_each_silence_fits_its_alert_alone(tmp_path: Path) -> None:
    """The printed silence is taken by Alertmanager, names one alert, and ends by itself."""
    config = tmp_path / "orphanwatch.yml"
    config.write_text(yaml.safe_dump({"pools": POOLS, "stores": STORES}))
    routes = build(load_config(config))["orphanwatch.alertmanager.yml"]
    webhook = Webhook()
    try:
        with running_alertmanager(tmp_path, routes, webhook.url) as port:
            address = f"--alertmanager.url=http://127.0.0.1:{port}"
            for name in ALERT_NAMES:
                (command,) = printed(name, "amtool")
                assert command[3].startswith("--alertmanager.url=")
                done = subprocess.run(
                    [program("amtool"), *command[1:3], address, *command[4:], "--author=test"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
            status, text = fetch(f"http://127.0.0.1:{port}/api/v2/silences")
            assert status == 200
    finally:
        webhook.stop()
    silences = json.loads(text)
    matchers = [
        [(one["name"], one["value"], one["isEqual"], one["isRegex"]) for one in silence["matchers"]]
        for silence in silences
    ]
    assert sorted(matchers) == sorted([("alertname", name, True, False)] for name in ALERT_NAMES)
