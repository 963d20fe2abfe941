"""The ``alerts lint`` command."""

from pathlib import Path

import click

from orphanwatch.alerts.artifacts import RULES, rules_text
from orphanwatch.alerts.lint.read_rules import read_rule_file
from orphanwatch.alerts.lint.run import Linted, checks, lint_foreign, lint_generated
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RuleFileError
from orphanwatch.exporter.options import config_option, load_to_render


@click.command(
    "lint",
    short_help="Check rules and dashboard queries without a server.",
    epilog="Example: orphanwatch alerts lint --config.file orphanwatch.yml",
)
@config_option
@click.option(
    "--rules",
    "rule_files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Look at the rules of this file instead, at those that read our metrics; repeatable.",
)
@click.pass_context
def lint_command(context: click.Context, config_file: Path, rule_files: tuple[Path, ...]) -> None:
    """Check rules and dashboard queries of this config without a server; exit 1 if one is wrong.

    Nothing can be excluded. docs/alerts.md lists the checks. Exit code 2 where no rule of --rules
    reads our metrics: nothing was checked.
    """
    config = load_to_render(config_file)
    if rule_files:
        linted = [lint_foreign(config, read_rule_file(file)) for file in rule_files]
    else:
        linted = [_lint_own(config)]
    if not any(one.rules for one in linted):
        files = ", ".join(map(str, rule_files))
        problem = "no rule reads our metrics, so nothing was checked"
        raise RuleFileError(files, problem, "name a file in --rules that has some")
    findings = [finding for one in linted for finding in one.findings]
    for finding in findings:
        click.echo(finding)
    click.echo(_summary(linted))
    context.exit(1 if findings else 0)


def _lint_own(config: Config) -> Linted:
    # The Grafana library is heavy, and no other command of the alerts needs it.
    from orphanwatch.dashboards.build import build as build_dashboards  # noqa: PLC0415

    return lint_generated(config, {RULES: rules_text(config)}, build_dashboards(config))


def _summary(linted: list[Linted]) -> str:
    rules, queries = sum(one.rules for one in linted), sum(one.queries for one in linted)
    found = sum(len(one.findings) for one in linted)
    looked = f"{len(checks())} checks, {rules} rule{'' if rules == 1 else 's'}"
    looked += f", {queries} dashboard queries" if queries else ""
    return f"{looked}: {found or 'no'} finding{'' if found == 1 else 's'}"
