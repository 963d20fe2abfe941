"""All generated files of the alerts, from one config."""

import re
from typing import Final

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.parts import parts
from orphanwatch.alerts.routing import routing
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.alerts.rules import prometheus_rule, rule_file
from orphanwatch.alerts.timing import HOLD_SCRAPES, LONGEST_SPLIT_HOLD
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import Micros, format_duration
from orphanwatch.exporter.names import OWN_LABELS

RULES: Final = "orphanwatch.rules.yml"
RULE_TESTS: Final = "orphanwatch.rules.test.yml"
PROMETHEUS_RULE: Final = "orphanwatch.prometheusrule.yml"
ALERTMANAGER: Final = "orphanwatch.alertmanager.yml"

_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def build(config: Config) -> dict[str, str]:
    """Return the text of each file by its name; the same config gives the same bytes.

    Raises ``RenderError`` that names the key of a config from which no sound rule can be made.
    """
    return {
        RULES: rules_text(config),
        RULE_TESTS: document_text(
            promtool_file(config, parts(config, ALERTS), RULES),
            f"Run with: promtool test rules {RULE_TESTS}",
        ),
        PROMETHEUS_RULE: document_text(
            prometheus_rule(config, ALERTS),
            "Add the labels that your Prometheus selects rules by, with an overlay of your own.",
        ),
        ALERTMANAGER: document_text(
            routing(config, ALERTS),
            *_merging(config),
        ),
    }


def rules_text(config: Config) -> str:
    """Return the rule file alone, for whoever only reads it; raises as ``build`` does."""
    _check_replica_labels(config)
    _check_scrape_interval(config)
    return document_text(rule_file(config, ALERTS))


def _merging(config: Config) -> tuple[str, ...]:
    """Return what to do with the Alertmanager part."""
    first = ("To merge into your own: the route below route.routes, the receivers with your pager",)
    if config.selector:
        return (
            *first,
            "in them, the inhibit_rules as they are. All of it is about one service, so the files",
            "of several merge into one. Capacity alerts are muted where they carry the labels of",
            "`selector`; where yours do not, say with `capacity_alerts` which are this service's.",
        )
    return (
        *first,
        "in them, the inhibit_rules as they are. With several clusters behind it, give each",
        "inhibition an `equal` list of the labels that tell them apart.",
    )


def _check_scrape_interval(config: Config) -> None:
    longest = Micros(LONGEST_SPLIT_HOLD // HOLD_SCRAPES)
    if config.scrape_interval > longest:
        raise RenderError(
            f"scrape_interval: at {format_duration(config.scrape_interval)} a page within "
            f"{format_duration(LONGEST_SPLIT_HOLD)} would rest on a single scrape; have Prometheus "
            f"scrape the exporter at least every {format_duration(longest)}, and say so here"
        )


def _check_replica_labels(config: Config) -> None:
    for label in config.replica_labels:
        if not _LABEL_NAME.fullmatch(label):
            raise RenderError(
                f"replica_labels: {label!r} is no label name; write for example instance"
            )
        if label in OWN_LABELS:
            raise RenderError(
                f"replica_labels: {label!r} is a label of the metrics themselves, "
                "and rules that drop it would mix them up; remove it"
            )
