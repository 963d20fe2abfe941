"""The ``alerts`` commands."""

from pathlib import Path

import click

from orphanwatch.alerts.artifacts import RULES
from orphanwatch.alerts.artifacts import build as build_alerts
from orphanwatch.alerts.backtest_command import backtest_command
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.coverage import coverage
from orphanwatch.alerts.lint_command import lint_command
from orphanwatch.alerts.parts import parts
from orphanwatch.alerts.promtool import prove
from orphanwatch.exporter.options import artifact_options, config_option, deliver, load_to_render
from orphanwatch.exporter.progress import progress


@click.group(epilog="Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/")
def alerts() -> None:
    """Prometheus alert rules, generated from the config."""


@alerts.command(
    short_help="Write rules, their tests, and the Alertmanager part.",
    epilog="Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/",
)
@artifact_options
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write rules, their promtool tests, the PrometheusRule and the Alertmanager part."""
    files = build_alerts(load_to_render(config_file))
    context.exit(deliver(files, out, check=check, again="alerts build"))


@alerts.command(epilog="Example: orphanwatch alerts test --config.file orphanwatch.yml")
@config_option
@click.pass_context
def test(context: click.Context, config_file: Path) -> None:
    """Build the rules for this config and prove them with promtool.

    Ends with "coverage: 19 of 19 rules". An alerting rule counts when, in tests that passed, one
    demands that it fires and one that it is silent, and when each of its alternatives (what "or"
    joins at the top of its expression) was seen to fire by itself while its firing was demanded.
    Recording rules count with the rules that read them.

    Each alert's cases are played against its own rules, healthy stacks against all of them.

    Exit 1 if a test fails, or a rule is not covered.
    """
    config = load_to_render(config_file)
    rules = build_alerts(config)[RULES]
    played = parts(config, ALERTS)
    with progress("alerts", len(played) + 1) as finished:
        outcomes = prove(config, rules, played, finished)
    proven = coverage(config, ALERTS, (outcome.evidence for outcome in outcomes))
    for outcome in outcomes:
        click.echo(f"{'ok' if outcome.passed else 'FAILED'}: {outcome.about}")
        # Of a rule file that is in order, promtool only counts the rules.
        if not outcome.passed:
            click.echo(outcome.output)
    for gap in proven.gaps:
        click.echo(f"not covered: {gap.rule}: {gap.missing}")
    click.echo(str(proven))
    passed = all(outcome.passed for outcome in outcomes)
    context.exit(0 if passed and not proven.gaps else 1)


alerts.add_command(lint_command)
alerts.add_command(backtest_command)
