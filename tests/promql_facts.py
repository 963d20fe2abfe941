"""What a PromQL text is made of, and what promtool answers to it over made-up series."""

import itertools
import math
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import promql_parser as promql
import yaml

from orphanwatch.exporter import names
from orphanwatch.exporter.board import BUCKET_EDGES
from orphanwatch.exporter.names import Family, Kind, StoreName

LABEL_VALUES: dict[str, tuple[str, ...]] = {
    names.POOL: ("paid", "overflow", names.OTHER_POOL),
    names.CAUSE: tuple(names.Cause),
    names.BASIS: tuple(names.Basis),
    names.STORE: tuple(StoreName),
    names.REASON: ("invalid_instant",),
    names.KEY: tuple(names.KeyKind),
    names.LEDGER: tuple(names.Join),
    names.TASK: tuple(names.Join),
    names.SOURCE: ("proposal",),
    names.CONDITION: tuple(names.Condition),
    names.VERSION: ("1",),
}
HEALTHY: dict[Family, str] = {
    names.GRACE_SECONDS: "1",
    names.LIVE_LEASES: "2",
    names.LEASE_CAP: "2",
    names.LEASE_AGE_SECONDS_MAX: "1",
    names.HEARTBEAT_PERIOD_SECONDS: "4",
    names.DEADLINE_SLACK_SECONDS_MIN: "8",
    names.DEADLINE_BUDGET_SECONDS: "12",
    names.QUEUE_DEPTH: "3",
    names.QUEUE_AGE_SECONDS: "2",
    names.QUEUE_IN_FLIGHT: "4",
    names.QUEUE_ADMISSION_CAP: "32",
    names.SPEND_TOKENS_PER_SECOND: "100",
    names.SPEND_BASELINE_TOKENS_PER_SECOND: "100",
    names.ATTACHED_TASKS: "6",
    names.ATTACHED_BASELINE_TASKS: "6",
    names.QUEUE_CALM: "1",
    names.GRACE_VALID_UNTIL: "9000000",
    names.OVERFLOW_ADMISSION_ALLOWED: "1",
    names.STORE_UP: "1",
    # One good read at each scrape: promtool's clock begins at 0.
    names.STORE_LAST_SUCCESS: "0+15x60",
    names.BUILD_INFO: "1",
}
HEALTHY_COUNTERS: dict[Family, str] = {names.REFRESH_DURATION_SECONDS: "0+3x60"}


def selectors(expr: str) -> list[promql.VectorSelector]:
    """Return every selector of an expression, those with a range included."""
    found: list[promql.VectorSelector] = []

    def collect(node: object) -> bool:
        if isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql.VectorSelector):
            found.append(node)
        return True

    promql.walk(promql.parse(expr), pre_visit=collect)
    # A walk may pass a range selector and its inner one: by text they are one.
    return list({selector.prettify(): selector for selector in found}.values())


def matchers(selector: promql.VectorSelector) -> set[tuple[str, str, str]]:
    """Return a selector's matchers as (label, operator, value)."""
    return {
        (matcher.name, str(matcher.op).split(".")[-1], matcher.value)
        for matcher in selector.matchers.matchers
    }


def family_of(sample: str | None) -> Family | None:
    """Return the family that a sample name belongs to; None for a name that is not ours."""
    for family in names.FAMILIES:
        suffixes = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
        if sample in {f"{family}{suffix}" for suffix in suffixes}:
            return family
    return None


def healthy_series(
    targets: Iterable[Mapping[str, str]],
    changes: Mapping[Family, str] | None = None,
) -> dict[str, str]:
    """Return every series of the page, as each target reports them in health, with changes."""
    values = {**HEALTHY, **(changes or {})}
    series: dict[str, str] = {}
    for target in targets:
        series[_name("up", target)] = "1x60"
        for family in names.FAMILIES:
            combinations = itertools.product(*(LABEL_VALUES[label] for label in family.labels))
            for combination in combinations:
                labels = {**target, **dict(zip(family.labels, combination, strict=True))}
                series |= _family(family, labels, values)
    return series


def _family(family: Family, labels: dict[str, str], values: Mapping[Family, str]) -> dict[str, str]:
    if family.kind is not Kind.HISTOGRAM:
        value = values.get(family, "0")
        return {_name(str(family), labels): value if "x" in value else f"{value}x60"}
    # Every observation took between 0.05 and 0.1 s, in an incident longer than the last edge.
    # An edge is written as the exporter does it.
    steps = values.get(family, HEALTHY_COUNTERS.get(family, "0+1x60"))
    fast = 0.1 if family not in values else math.inf
    buckets = {repr(edge): steps if edge >= fast else "0x60" for edge in BUCKET_EDGES[family]}
    return {
        **{
            _name(f"{family}_bucket", {**labels, "le": edge}): counted
            for edge, counted in {**buckets, "+Inf": steps}.items()
        },
        _name(f"{family}_sum", labels): "0+0.03x60",
        _name(f"{family}_count", labels): steps,
    }


def _name(name: str, labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{inner}}}"


def disagreements(
    folder: Path, series: Mapping[str, str], expected: Mapping[str, float | None]
) -> str:
    """Return what promtool says against the expected single values; empty where all hold.

    Each expression is evaluated 10 minutes into the series, and must give one sample without
    labels of the given value, or nothing at all for None.
    """
    (folder / "none.yml").write_text("groups: []\n", encoding="utf-8")
    tests = [
        {
            "expr": expr,
            "eval_time": "10m",
            "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
        }
        for expr, value in expected.items()
    ]
    document = {
        "rule_files": ["none.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": tests,
            }
        ],
    }
    path = folder / "answers.test.yml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    run = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    return "" if run.returncode == 0 else run.stdout + run.stderr


def fenced(markdown: str, language: str) -> list[str]:
    """Return the contents of a page's fenced blocks of one language."""
    blocks = re.findall(rf"^( *)```{language}\n(.*?)^\1```", markdown, re.DOTALL | re.MULTILINE)
    return [
        "\n".join(line.removeprefix(indent) for line in text.splitlines())
        for indent, text in blocks
    ]
