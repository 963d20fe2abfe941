"""Which three queries tell, by alert, whether it is real, and how a page asks a check."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.runbooks import checks_context, checks_evidence, checks_faults
from orphanwatch.runbooks.markdown import block, code
from orphanwatch.runbooks.queries import Check

Checks = Callable[[Config], tuple[Check, ...]]

CHECKS: Final[Mapping[str, Checks]] = {
    "OrphanTokensAccruing": checks_evidence.tokens_accruing,
    "OrphanLeasesAlive": checks_evidence.leases_alive,
    "OrphanSplitSignal": checks_evidence.split_signal,
    "OrphanDetectorBlind": checks_evidence.detector_blind,
    "OrphanDuplicateDecoders": checks_faults.duplicate_decoders,
    "OrphanShedOverdue": checks_faults.shed_overdue,
    "OrphanRetryWithoutRetryId": checks_faults.retry_without_retry_id,
    "OrphanLedgerMiskeyed": checks_faults.ledger_miskeyed,
    "OrphanHeartbeatTooSlow": checks_faults.heartbeat_too_slow,
    "OrphanPoolsMixed": checks_context.pools_mixed,
    "OrphanCancelSlowerThanGrace": checks_context.cancel_slower_than_grace,
    "OrphanGraceUnmeasured": checks_context.grace_unmeasured,
    "OrphanOverflowClosed": checks_context.overflow_closed,
    "OrphanWasteBudgetBurn": checks_context.waste_budget_burn,
}
_COUNT: Final = 3


def checks_of(config: Config, alert: str) -> tuple[Check, ...]:
    """Return the three checks of an alert, the one that decides first.

    Raises ``RenderError`` for an alert that has not three.
    """
    make = CHECKS.get(alert)
    if make is None:
        raise RenderError(f"{alert} has no checks; add a line to CHECKS in runbooks/checks.py")
    checks = make(config)
    if len(checks) != _COUNT:
        raise RenderError(f"{alert} has {len(checks)} checks; its page asks {_COUNT} questions")
    return checks


class Asked(NamedTuple):
    """A check as a page asks it: every field is finished Markdown."""

    question: str
    query: str
    healthy: str
    real: str
    no_answer: str


def asked(check: Check) -> Asked:
    """Return a check, ready for its page."""
    return Asked(
        check.question,
        block(check.expr, "promql"),
        _answer(check.healthy),
        _answer(check.real),
        check.no_answer,
    )


def _answer(comparison: str | None) -> str:
    return "no answer at all" if comparison is None else code(comparison)
