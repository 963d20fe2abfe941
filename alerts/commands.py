"""The ``alerts`` commands."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from orphanwatch.alerts.artifacts import build as build_alerts
from orphanwatch.alerts.promtool import run_promtool
from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.options import artifact_options, config_option, deliver


@click.group()
def alerts() -> None:
    """Prometheus alert rules, generated from the config.

    Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/
    """


@alerts.command(
    epilog="Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/"
)
@artifact_options
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write rules, their promtool tests, the PrometheusRule and the Alertmanager part."""
    files = build_alerts(load_config(config_file))
    context.exit(deliver(files, out, check=check, again="alerts build"))


@alerts.command(epilog="Example: orphanwatch alerts test --config.file orphanwatch.yml")
@config_option
@click.pass_context
def test(context: click.Context, config_file: Path) -> None:
    """Build the rules for this config and prove them with promtool; exit 1 if one fails."""
    files = build_alerts(load_config(config_file))
    with TemporaryDirectory(prefix="orphanwatch-") as folder:
        write_files(files, Path(folder))
        outcomes = run_promtool(Path(folder))
    for outcome in outcomes:
        click.echo(f"{'ok' if outcome.passed else 'FAILED'}: {outcome.command}")
        if outcome.output:
            click.echo(outcome.output)
    context.exit(0 if all(outcome.passed for outcome in outcomes) else 1)
