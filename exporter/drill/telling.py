"""What a drill's command prints: the outcome of each drill, the promotion table, the rollback."""

from collections.abc import Iterator, Sequence
from typing import Final

from orphanwatch.exporter.drill.faults import HOP_WORDS
from orphanwatch.exporter.drill.report import DrillReport

CLEAN: Final = "All rows of the drill were taken away; no lease of it is open."

ROLLBACK: Final = (
    "stop overflow admission",
    "cancel leases older than one grace",
    "freeze the ledger for the affected task ids",
    "drain in-flight decoders",
    "reopen only after orphan_token_delta has stayed at zero",
)
"""The order of the service page, which says to each step why, and how to see that it is done."""


def rollback_lines(*, promoted: bool) -> Iterator[str]:
    """Yield what to do, and in which order, where a drill's picture is met for real.

    ``promoted`` is that nothing went wrong: then there is nothing to do now, and that is said.
    """
    if promoted:
        yield "Nothing to roll back. Should a cancel ever get lost for real, do so in this order"
        yield "(the service page says how):"
    else:
        yield "Were this for real, roll back in this order (the service page says how):"
    for number, step in enumerate(ROLLBACK, 1):
        yield f"  {number}. {step}"


def outcome_lines(report: DrillReport) -> Iterator[str]:
    """Yield verdict, telemetry, hop, and where the exporter and the drill disagree."""
    telemetry = report.telemetry
    yield (
        f"{report.fault or f'{report.mode} baseline'}: {report.verdict}; "
        f"{'promoted' if report.promoted else 'not promoted'}"
    )
    yield (
        f"  orphan_token_delta {_shown(telemetry.orphan_token_delta)}, "
        f"lease_age_ms {_shown(telemetry.lease_age_ms)}, "
        f"deadline_slack_ms {_shown(telemetry.deadline_slack_ms)}, "
        f"duplicate_in_flight {_shown(telemetry.duplicate_in_flight)}"
    )
    if report.hop is not None:
        yield f"  hop {report.hop}: {HOP_WORDS[report.hop]}"
    for said in report.truth.disagreements:
        yield f"  the exporter and the drill disagree: {said}"


def promotion_table(reports: Sequence[DrillReport]) -> Iterator[str]:
    """Yield one line a drill, under a head."""
    yield f"{'drill':<18}{'verdict':<30}{'token delta':>12}  {'hop':<16}promoted"
    for report in reports:
        yield (
            f"{report.fault or 'shed baseline':<18}{report.verdict:<30}"
            f"{_shown(report.telemetry.orphan_token_delta):>12}  "
            f"{report.hop or '-':<16}{'yes' if report.promoted else 'no'}"
        )


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
