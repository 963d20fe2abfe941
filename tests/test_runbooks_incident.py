"""The pages' queries, asked of a real Prometheus that scraped a real incident from its calm on."""

import json
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from artifact_configs import small_config
from incident import Incident, recorded_incident
from runbook_incidents import NOT_STAGED, NOT_STAGED_FOR_SERVICE
from servers import fetch

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.runbooks.checks import checks_of
from orphanwatch.runbooks.checks_service import service_checks
from orphanwatch.runbooks.queries import Check

pytestmark = pytest.mark.servers

LENGTH = 45.0


class Recorded(NamedTuple):
    """The incident, and the time that it took."""

    incident: Incident
    end: float

    def rows(self, expr: str) -> list[str]:
        """Return the label sets that a query answers with at any second of the incident."""
        asked = {"query": expr, "start": self.incident.start, "end": self.end, "step": 1}
        status, text = fetch(f"{self.incident.prometheus}/api/v1/query_range?{urlencode(asked)}")
        assert status == 200, text
        return [str(series["metric"]) for series in json.loads(text)["data"]["result"]]

    def is_silent(self, expr: str) -> bool:
        """Return whether a query has no answer at some second of the incident."""
        return bool(self.rows(f"absent({expr})"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Record one incident for all tests of this file."""
    with recorded_incident(tmp_path_factory.mktemp("incident"), LENGTH) as incident:
        yield Recorded(incident, time.time())


def asked(recorded: Recorded, alert: str, number: int) -> Check:
    """Return one check of an alert, for the incident's config."""
    return checks_of(recorded.incident.config, alert)[number]


CHECKS = [
    pytest.param(alert.name, number, id=f"{alert.name}, question {number + 1}")
    for alert in ALERTS
    for number in range(3)
]


@pytest.mark.parametrize(("alert", "number"), CHECKS)
def test_healthy_before(recorded: Recorded, alert: str, number: int) -> None:
    """In the calm before the incident each query answers as the page says that health does."""
    check = asked(recorded, alert, number)
    if check.healthy is None:
        assert recorded.is_silent(check.expr)
    else:
        assert recorded.rows(f"({check.expr}) {check.healthy}")


@pytest.mark.parametrize(("alert", "number"), CHECKS)
def test_real_in_the_incident(recorded: Recorded, alert: str, number: int) -> None:
    """In the incident each query gives the answer that the page calls real."""
    check = asked(recorded, alert, number)
    if number in NOT_STAGED.get(alert, {}):
        assert check.healthy is None or recorded.rows(check.expr)
    else:
        assert recorded.rows(f"({check.expr}) {check.real}")


@pytest.mark.parametrize("name", service_checks(small_config()))
def test_service_page(recorded: Recorded, name: str) -> None:
    """The queries of the service page tell the calm from the incident as well."""
    check = service_checks(recorded.incident.config)[name]
    if name in NOT_STAGED_FOR_SERVICE:
        assert recorded.rows(check.expr)
    else:
        assert recorded.rows(f"({check.expr}) {check.real}")
