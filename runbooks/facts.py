"""Everything that a page may name: the numbers, owners, queries and commands of one config."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orphanwatch.alerts.timing import stale_age
from orphanwatch.dashboards.links import PANEL_OF_ALERT, alert_url, overview_url
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import Role
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK
from orphanwatch.exporter.version import VERSION
from orphanwatch.runbooks import service
from orphanwatch.runbooks.checks import asked, checks_of
from orphanwatch.runbooks.checks_service import service_checks
from orphanwatch.runbooks.context_facts import context_facts
from orphanwatch.runbooks.markdown import block, cell, code, plain, table
from orphanwatch.runbooks.owners import call, card, tell
from orphanwatch.runbooks.queries import page_queries
from orphanwatch.runbooks.rules import PageAlert, PageRule, recording_texts, rule_texts, stories
from orphanwatch.runbooks.threshold import grace_rests_on, grace_text, threshold_of

NO_SAMPLE: Final = "none: the number is a choice, not a measurement"

# A digest that moved with the folder, or gave a hint at a secret, would tell nothing of the page.
_PLACES: Final = ("path", "file")


def page_facts(config: Config, config_file: str) -> dict[str, object]:
    """Return what every page may name. ``config_file`` stands in the commands to paste."""
    leases = config.stores.leases
    return {
        "service": _service(config),
        "version": _version(config),
        "generator": VERSION,
        "config_file": code(config_file),
        "digest": digest(config),
        "overview_url": overview_url(config),
        "overflow_pools": ", ".join(code(name) for name in config.overflow_pools)
        or "none is configured",
        "overflow_work": ", ".join(code(name) for name in config.overflow_pools) or "batch work",
        "owners": card(config),
        "call": call(config),
        "batch": tell(config),
        "stores": [str(store) for store in config.stores.configured()],
        "delta_window": format_duration(config.delta_window),
        "baseline_window": format_duration(config.baseline_window),
        "reopen_hold": format_duration(config.reopen_hold),
        "stale_after": format_duration(config.stale_after),
        "stale_age": format_duration(stale_age(config)),
        "refresh_interval": format_duration(config.refresh_interval),
        "scrape_interval": format_duration(config.scrape_interval),
        "lease_ttl": format_duration(leases.lease_ttl) if leases else "the lease store's lease_ttl",
        "token_delta": f"{config.thresholds.token_delta:g}",
        "calm_depth_ratio": f"{config.thresholds.calm_depth_ratio:g}",
        "rise_ratio": f"{config.rise_ratio:g}",
        "heartbeat_slack": f"{HEARTBEAT_SLACK:g}",
        "flat_ratio": f"{config.thresholds.flat_ratio:g}",
        "thresholds": config.thresholds,
        "q": {name: block(expr, "promql") for name, expr in page_queries(config).items()},
        "run": _commands(config, config_file),
        **_grace_facts(config),
        **context_facts(config),
    }


def alert_facts(config: Config, alert: PageAlert) -> dict[str, object]:
    """Return what the page of one alert may name besides.

    A config may leave an alert nothing to look at: then it has no rule, and its page says so.
    """
    rules = alert.rules(config)
    panel = PANEL_OF_ALERT[alert.name]
    return {
        "name": alert.name,
        "severity": _severity(config, alert),
        "summary": plain(alert.summary),
        "rules": rule_texts(config, alert),
        "recordings": recording_texts(config, alert),
        "holds": ", ".join(dict.fromkeys(format_duration(rule.hold) for rule in rules)),
        "stories": stories(config, alert),
        "time_to_page": _time_to_page(rules),
        "dashboard_url": alert_url(config, alert.name),
        "panel": f"number {panel.id} of the dashboard {code(panel.dashboard)}",
        "silence_matcher": _silence_matcher(config, alert.name),
        "checks": [asked(check) for check in checks_of(config, alert.name)],
    }


def _severity(config: Config, alert: PageAlert) -> str:
    """Return the severities of its rules, or its own where this config gives it none."""
    severities = [str(rule.severity) for rule in alert.rules(config)] or [str(alert.severity)]
    return ", ".join(dict.fromkeys(severities))


def _time_to_page(rules: Sequence[PageRule]) -> str:
    """Return the slowest rule's time to page, by severity where there are several."""
    slowest: dict[str, int] = {}
    for rule in rules:
        known = slowest.get(str(rule.severity), 0)
        slowest[str(rule.severity)] = max(known, rule.time_to_page)
    if not slowest:
        return "never: this config gives it nothing to look at"
    if len(slowest) == 1:
        return format_duration(*slowest.values())
    return ", ".join(f"{severity} {format_duration(time)}" for severity, time in slowest.items())


def _silence_matcher(config: Config, alert: str) -> str:
    """Return the matchers that fit this alert, of this service, and nothing else, for a shell."""
    # The rules carry their service only where a selector says that there are several.
    matchers = {"alertname": alert} | ({"service": config.service} if config.selector else {})
    return " ".join(
        shlex.quote(f"{label}={json.dumps(value, ensure_ascii=False)}")
        for label, value in matchers.items()
    )


def service_facts(config: Config, alerts: tuple[PageAlert, ...]) -> dict[str, object]:
    """Return what the service page may name besides."""
    return {
        "hops": service.hops(config),
        "checks": {name: asked(check) for name, check in service_checks(config).items()},
        "verdicts": service.verdicts(config),
        "wrong_bets": service.wrong_bets(config),
        "limits": service.limits(config),
        "alerts": [
            (alert.name, _severity(config, alert), plain(alert.summary)) for alert in alerts
        ],
        "paid_cap": [
            (cell(name), pool.lease_cap)
            for name, pool in sorted(config.pools.items())
            if pool.role is Role.PAID and pool.lease_cap is not None
        ],
    }


def _service(config: Config) -> str:
    name = plain(config.service)
    if not name:
        raise RenderError("service: is blank; name the service that these pages are for")
    return name


def digest(config: Config) -> str:
    """Return a short digest of the settings, without secrets and without where files lie."""
    # A setting at its default is left out, so that a new one with a default changes no page.
    settings = _without_places(config.model_dump(mode="json", exclude_defaults=True))
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_places(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _without_places(inner)
        for key, inner in value.items()
        if key not in _PLACES and not key.endswith("_file")
    }


def _version(config: Config) -> str:
    sources = [f"{name} (`{source.type}`)" for name, source in _sources(config)]
    return f"orphanwatch {VERSION}, reading {', '.join(sources) or 'no store'}"


def _sources(config: Config) -> list[tuple[str, Any]]:
    return [(str(name), getattr(config.stores, name)) for name in config.stores.configured()]


def _commands(config: Config, config_file: str) -> Mapping[str, str]:
    """Return the commands that pages print, each as a block that can be pasted."""
    given = f"--config.file {shlex.quote(config_file)}"
    read = config.measured_grace
    # What is measured and not saved where the config reads it changes nothing.
    saved = "" if read is None else f" --save {shlex.quote(read.file)}"
    commands = {
        "snapshot": f"orphanwatch snapshot {given} --format json",
        "check": f"orphanwatch check {given}",
        "diagnose": f"orphanwatch diagnose {given}",
        "grace": f"orphanwatch grace {given}",
        "grace_again": f"orphanwatch grace {given}{saved}",
        "alerts_test": f"orphanwatch alerts test {given}",
    }
    return {name: block(command, "sh") for name, command in commands.items()}


def _grace_facts(config: Config) -> dict[str, object]:
    threshold = threshold_of(config)
    rows = [
        (
            cell(pool),
            grace_text(config.grace_of(pool)),
            f"`{config.grace_source(pool)}`",
            grace_rests_on(config, pool),
        )
        for pool in config.pool_names
    ]
    return {
        "threshold": threshold,
        "grace_table": table(("pool", "grace in force", "source", "rests on"), rows),
        "grace_sample": threshold.provenance,
        "grace_again": "`orphanwatch grace` says what the cancels of the last days carry",
        "no_sample": NO_SAMPLE,
        "grace_digest": "" if config.measurement is None else config.measurement.digest,
    }
