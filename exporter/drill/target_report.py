"""What a drill on a real gateway found, as one document, and in lines for people."""

from collections.abc import Iterator
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.config_values import Strict
from orphanwatch.exporter.drill.faults import HOP_WORDS, Hop
from orphanwatch.exporter.drill.looks import hop_of, most
from orphanwatch.exporter.drill.report import Outcome, printable
from orphanwatch.exporter.drill.target_rehearsed import (
    Rehearsed,
    found_in,
    orphan_tokens,
    propagation_of,
)
from orphanwatch.exporter.drill.target_requests import Ask, shown_address
from orphanwatch.exporter.drill.target_verdict import Judgement
from orphanwatch.exporter.instants import Instant, format_instant, seconds
from orphanwatch.exporter.names import ARM_STORES, StoreName

_CANT_TELL: Final = "can't tell"


class RequestReport(Strict):
    """One request; seconds are after it was sent, and None is "has none", or was not seen."""

    task_id: str
    """As it was sent."""
    store_id: str | None
    """Its id in the gateway's store."""
    retry_id: str
    attempt: int
    sent_at: str
    first_event_s: float | None
    left_s: float | None
    ended_s: float | None
    events: int
    orphan_tokens: float | None
    propagation_s: float | None
    found_in: tuple[StoreName, ...]


class TargetReport(Strict):
    """One drill on a real gateway."""

    target: str
    model: str
    knobs: dict[str, float]
    knobs_digest: str
    requests: tuple[RequestReport, ...]
    orphan_token_delta: float | None
    """Of everybody, the largest that was seen; None where it was ever unknown."""
    verdict: Outcome | None
    """None is "can't tell"."""
    promoted: bool
    hop: Hop | None
    findings: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]


def target_report_of(rehearsed: Rehearsed, judgement: Judgement) -> TargetReport:
    """Return what was found, harmless to print."""
    plan = rehearsed.plan
    evaluations = [look.evaluation for look in rehearsed.looks]
    missed = judgement.verdict is Outcome.CANCEL_MISSED
    return TargetReport(
        target=shown_address(plan.target.url),
        model=plan.target.model,
        knobs=plan.knobs.as_written(),
        knobs_digest=plan.knobs.digest,
        requests=tuple(_request(rehearsed, ask) for ask in plan.asks if ask in rehearsed.told),
        orphan_token_delta=most(evaluations, names.TOKEN_DELTA),
        verdict=judgement.verdict,
        promoted=judgement.promoted,
        hop=hop_of(evaluations) if missed else None,
        findings=tuple(map(printable, judgement.findings)),
        doubts=tuple(map(printable, judgement.doubts)),
        notes=tuple(map(printable, judgement.notes)),
    )


def _request(rehearsed: Rehearsed, ask: Ask) -> RequestReport:
    told = rehearsed.told[ask]
    rows = [seen.task.task_id for _, seen in rehearsed.seen(ask) if seen.task is not None]
    measured = propagation_of(rehearsed, ask)
    found = found_in(rehearsed, ask)

    def after(instant: Instant | None) -> float | None:
        return None if instant is None else round(seconds(instant - told.sent_at), 3)

    return RequestReport(
        task_id=ask.task_id,
        store_id=printable(rows[-1]) if rows and rows[-1] is not None else None,
        retry_id=ask.retry_id,
        attempt=ask.attempt,
        sent_at=format_instant(told.sent_at),
        first_event_s=after(told.first_at),
        left_s=after(told.left_at),
        ended_s=after(told.ended_at),
        events=told.events,
        orphan_tokens=orphan_tokens(rehearsed, ask),
        propagation_s=None if measured is None else measured.seconds,
        found_in=tuple(name for name in ARM_STORES if name in found),
    )


def target_lines(report: TargetReport, kept: str) -> Iterator[str]:
    """Yield what people read; ``kept`` says what became of the samples of propagation."""
    yield (
        f"{report.target}: {report.verdict or _CANT_TELL}; "
        f"{'promoted' if report.promoted else 'not promoted'}"
    )
    for request in report.requests:
        yield f"  {request.task_id}: {_end_of(request)}; {_shown(request)}"
    yield "  found: " + ", ".join(
        f"{name} {sum(name in request.found_in for request in report.requests)} of "
        f"{len(report.requests)}"
        for name in ARM_STORES
    )
    delta = report.orphan_token_delta
    yield f"  orphan_token_delta of all traffic {'unknown' if delta is None else f'{delta:g}'}"
    if report.hop is not None:
        yield f"  hop {report.hop}: {HOP_WORDS[report.hop]}"
    for word, sentences in (
        ("found", report.findings),
        ("not known", report.doubts),
        ("note", report.notes),
    ):
        yield from (f"  {word}: {sentence}" for sentence in sentences)
    yield f"  {kept}"
    yield "Nothing was written into any store, and no connection is open: nothing to clean up."


def _end_of(request: RequestReport) -> str:
    events = f"{request.events} events"
    if request.left_s is not None:
        return f"left after {request.left_s:.1f} s and {events}"
    if request.ended_s is not None:
        return f"ended after {request.ended_s:.1f} s and {events}"
    return f"broke off after {events}"


def _shown(request: RequestReport) -> str:
    tokens = "unknown" if request.orphan_tokens is None else f"{request.orphan_tokens:g}"
    words = [f"attempt {request.attempt}", f"orphan tokens {tokens}"]
    if request.propagation_s is not None:
        words.append(f"by the exporter {request.propagation_s:.2f} s from cancel to stop")
    return ", ".join(words)
