"""From an alert to its panel, from a panel to its page, and no panel that is not listed."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from artifact_configs import small_config
from panel_answers import panels_of

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.dashboards.build import build
from orphanwatch.dashboards.links import (
    LONGEST_UID,
    PANEL_OF_ALERT,
    SERVICE_PAGE,
    Dashboard,
    Panel,
    alert_url,
)
from orphanwatch.runbooks.panel import panel_text

PAGES = "http://127.0.0.1:9787/runbook"
BOARDS = {file: json.loads(text) for file, text in build(small_config()).items()}


def test_every_alert_has_a_panel() -> None:
    """Each alert of the catalogue points at a panel that is there, which leads to its page."""
    for alert in ALERTS:
        url = urlsplit(alert_url(small_config(), alert.name))
        uid, (number,) = url.path.rpartition("/")[2], parse_qs(url.query)["viewPanel"]
        shown = {str(found["id"]): found for found in panels_of(BOARDS[f"{uid}.json"])}
        assert shown[number]["links"][0]["url"] == f"{PAGES}/{alert.name}"


def test_panels_are_of_alerts_only() -> None:
    """No panel is kept for an alert that is not there."""
    assert set(PANEL_OF_ALERT) == {alert.name for alert in ALERTS}


def test_every_panel_is_listed() -> None:
    """The panels of the three dashboards are those of the list, each with its id."""
    drawn_ids = {
        (file.removesuffix(".json"), found["id"])
        for file, board in BOARDS.items()
        for found in board["panels"]
        if found["type"] != "row"
    }
    assert drawn_ids == {(str(one.dashboard), one.id) for one in Panel}


def test_alert_opens_on_its_job_and_pool() -> None:
    """The labels of an alert choose the dashboard's variables; a missing label chooses nothing."""
    config, name = small_config(), "OrphanTokensAccruing"
    assert alert_url(config, name, {"pool": "over flow&x", "job": "o"}) == (
        "http://127.0.0.1:3000/d/orphanwatch-overview?viewPanel=7&var-job=o&var-pool=over+flow%26x"
    )
    assert alert_url(config, name, {"severity": "critical"}) == alert_url(config, name)


@pytest.mark.parametrize(
    ("service", "uid"),
    [
        pytest.param("chat", "orphanwatch-cancel-path-chat", id="a short name"),
        pytest.param("Chat EU/1", "orphanwatch-cancel-path-chat-eu-1", id="signs become dashes"),
        pytest.param(
            "summaries-of-long-meetings-a",
            "orphanwatch-cancel-path-summaries-d2f19a",
            id="a long name is cut, and told apart",
        ),
    ],
)
def test_services_have_dashboards_of_their_own(service: str, uid: str) -> None:
    """Two services in one Grafana don't overwrite each other's dashboards; alerts know whose."""
    config = small_config(selector='namespace="a"', service=service)
    text = build(config)[f"{Dashboard.CANCEL_PATH}.json"]
    board = json.loads(text)
    assert board["uid"] == uid
    assert len(uid) <= LONGEST_UID
    assert board["title"] == f"Orphanwatch / Cancel path ({service})"
    assert f"/d/{uid}?" in alert_url(config, "OrphanHeartbeatTooSlow")


def test_the_service_page_is_on_the_overview() -> None:
    """Whoever looks at the overview has the page's words there, and a link to the page itself."""
    board = BOARDS[f"{Dashboard.OVERVIEW}.json"]
    (found,) = [one for one in board["panels"] if one["type"] == "text"]
    assert found["id"] == Panel.WHAT_TO_DO.id
    assert found["description"]
    assert found["options"]["mode"] == "markdown"
    assert found["options"]["content"] == panel_text(small_config(), SERVICE_PAGE, ALERTS)
    assert found["links"][0]["url"] == f"{PAGES}/{SERVICE_PAGE}"
