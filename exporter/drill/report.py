"""What a drill found: one frozen document, written as JSON and read back by ``drill report``."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.faults import HOPS, Fault, Hop, Mode
from orphanwatch.exporter.drill.looks import most
from orphanwatch.exporter.drill.record import Held
from orphanwatch.exporter.drill.run import Look, Played
from orphanwatch.exporter.drill.truth import cutoff_of, orphan_tokens
from orphanwatch.exporter.instants import Instant, format_instant, seconds
from orphanwatch.exporter.names import ARM_STORES, Family
from orphanwatch.exporter.stack.requests import Request

_MILLISECONDS: Final = 1000


class Outcome(StrEnum):
    """The verdict of a drill, in the words of those who run them."""

    ORPHAN_DECODE = "orphan decode after cancel"
    SHED = "shed within grace"
    CANCEL_MISSED = "cancel missed"
    UNEXPECTED_SHED = "unexpected shed"


def printable(text: str) -> str:
    """Return a text with every sign spelled out that would act on a terminal or reorder a line."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


Text = Annotated[str, AfterValidator(printable)]
"""Harmless to print: anybody may have edited the file that it was read from."""

Seconds = Annotated[float, Field(ge=-1e9, le=1e9)]
"""After the drill's start; bounded, so that a page can be drawn of whatever a file says."""

Count = Annotated[int, Field(ge=0, le=10**15)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class TaskReport(_Frozen):
    """One task as it really ran; instants are seconds after the drill's start.

    None is "has none": a client that stayed has no cancel, a cancel that never arrived no
    propagation.
    """

    task_id: Text
    retry_id: Text
    pool: Text
    cancel_at_s: Seconds | None
    cutoff_s: Seconds | None
    """The cancel and one grace: what is decoded after it is orphan work."""
    deadline_s: Seconds
    prompt_tokens: Count
    decode_tokens_at_cancel: Count | None
    decode_tokens_at_deadline: Count
    """As of the deadline, or the drill's end where that comes first."""
    in_flight_after_cancel: bool | None
    """Whether a worker still held it after the cutoff."""
    shed_reason: Text | None
    """``client_cancel`` where a cancel stopped it within the grace."""
    propagation_s: Seconds | None
    orphan_tokens: float
    curve: tuple[tuple[Seconds, Count], ...]
    """Seconds after the start, and the tokens decoded by then, at each charge."""


class Telemetry(_Frozen):
    """What the exporter showed over the whole drill: the worst of each. None is unknown."""

    deadline_slack_ms: float | None
    lease_age_ms: float | None
    orphan_token_delta: float | None
    duplicate_in_flight: float | None
    unmatched_tokens: float | None
    retries_without_retry_id: float | None
    blind: bool


class TruthReport(_Frozen):
    """The same by the drill's own record, and whether the exporter agreed."""

    orphan_token_delta: float
    orphan_leases: Count
    duplicate_in_flight: Count
    hop: Hop | None
    disagreements: tuple[Text, ...]


class DrillReport(_Frozen):
    """One drill."""

    mode: Mode
    fault: Fault | None
    knobs: dict[Text, float]
    knobs_digest: Text
    seed: int
    started_at: Text
    tasks: tuple[TaskReport, ...]
    telemetry: Telemetry
    truth: TruthReport
    promoted: bool
    verdict: Outcome
    hop: Hop | None
    """The hop that lost the cancel, as the exporter tells it; None where it sees none."""


def report_of(played: Played, mode: Mode, hop: Hop | None, config: Config) -> DrillReport:
    """Return the report of a drill; ``hop`` is what ``diagnose`` says at its end."""
    scenario, telemetry = played.scenario, _telemetry(played)
    tasks = tuple(
        sorted(
            (_task(played, request, config) for request in played.record.requests.values()),
            key=lambda task: int(task.task_id.rpartition("-")[2]),
        )
    )
    truth = TruthReport(
        orphan_token_delta=max(look.truth.token_delta for look in played.looks),
        orphan_leases=max(look.truth.orphan_leases for look in played.looks),
        duplicate_in_flight=max(look.truth.duplicates for look in played.looks),
        hop=HOPS[scenario.fault] if scenario.fault is not None else None,
        disagreements=played.disagreements,
    )
    return DrillReport(
        mode=mode,
        fault=scenario.fault,
        knobs=scenario.knobs.as_written(),
        knobs_digest=scenario.knobs.digest,
        seed=scenario.seed,
        started_at=format_instant(played.start),
        tasks=tasks,
        telemetry=telemetry,
        truth=truth,
        promoted=_is_promoted(telemetry, truth, tasks),
        verdict=verdict_of(mode, tasks),
        hop=hop,
    )


_PROOFS: Final = (
    "orphan_token_delta",
    "unmatched_tokens",
    "retries_without_retry_id",
    "duplicate_in_flight",
)
"""What has to be known and to have stayed zero: a zero that nothing joins is no proof."""


def _is_promoted(telemetry: Telemetry, truth: TruthReport, tasks: Sequence[TaskReport]) -> bool:
    # A ledger with ``prorated: report`` keeps its delta at zero, whatever it charges.
    if any(task.orphan_tokens > 0 for task in tasks):
        return False
    stayed_zero = all(getattr(telemetry, name) == 0 for name in _PROOFS)
    return stayed_zero and not telemetry.blind and not truth.disagreements


def verdict_of(mode: Mode, tasks: Sequence[TaskReport]) -> Outcome:
    """Return what became of cancelled tasks, measured by what the mode lets expect."""
    is_orphan = any(task.in_flight_after_cancel or task.orphan_tokens > 0 for task in tasks)
    if mode is Mode.SHED:
        return Outcome.CANCEL_MISSED if is_orphan else Outcome.SHED
    return Outcome.ORPHAN_DECODE if is_orphan else Outcome.UNEXPECTED_SHED


def _task(played: Played, request: Request, config: Config) -> TaskReport:
    record, start = played.record, played.start
    cancelled = record.cancelled_at.get(request.task_id)
    cutoff = cutoff_of(record, config, request)
    end = Instant(start + played.scenario.knobs.length)
    is_in_flight = (
        None
        if cutoff is None
        else any(_outlives(lease, cutoff) for lease in record.leases_of(request.task_id))
    )
    propagation = record.propagation(request.task_id)
    return TaskReport(
        task_id=request.task_id,
        retry_id=request.retry_id,
        pool=request.pool,
        cancel_at_s=None if cancelled is None else seconds(cancelled - start),
        cutoff_s=None if cutoff is None else seconds(cutoff - start),
        deadline_s=seconds(request.deadline_at - start),
        prompt_tokens=request.prompt_tokens,
        decode_tokens_at_cancel=(
            None if cancelled is None else record.decoded(request.task_id, cancelled)
        ),
        decode_tokens_at_deadline=record.decoded(request.task_id, min(request.deadline_at, end)),
        in_flight_after_cancel=is_in_flight,
        shed_reason="client_cancel" if is_in_flight is False else None,
        propagation_s=None if propagation is None else seconds(propagation),
        orphan_tokens=orphan_tokens(record, config, request.task_id, end),
        curve=tuple(_curve(played, request.task_id)),
    )


def _outlives(lease: Held, cutoff: Instant) -> bool:
    return lease.released_at is None or lease.released_at > cutoff


def _curve(played: Played, task_id: str) -> Iterator[tuple[float, int]]:
    decoded = 0
    for of, charge in played.record.charges:
        if of == task_id:
            decoded += charge.tokens - charge.prompt_tokens
            yield seconds(charge.at - played.start), decoded


def _telemetry(played: Played) -> Telemetry:
    looks = played.looks
    seen = [look.seen for look in looks]
    return Telemetry(
        deadline_slack_ms=_extreme(looks, names.DEADLINE_SLACK_SECONDS_MIN, least=True),
        lease_age_ms=_extreme(looks, names.LEASE_AGE_SECONDS_MAX, least=False),
        orphan_token_delta=most(seen, names.TOKEN_DELTA),
        duplicate_in_flight=most(seen, names.DUPLICATE_IN_FLIGHT),
        unmatched_tokens=_unmatched(looks),
        retries_without_retry_id=most(seen, names.RETRIES_WITHOUT_RETRY_ID),
        blind=any(not look.seen.stores[name].up for look in looks for name in ARM_STORES),
    )


def _extreme(looks: Sequence[Look], family: Family, *, least: bool) -> float | None:
    """Return the least or the largest of all pools and looks in milliseconds, None for none."""
    values = [
        sample.value * _MILLISECONDS
        for look in looks
        for sample in look.seen.gauges.get(family, ())
    ]
    pick = min if least else max
    return round(pick(values), 3) if values else None


def _unmatched(looks: Sequence[Look]) -> float | None:
    """Return the largest spend under keys that are no task; None where no kind could be told."""
    seen = [look.seen.gauges.get(names.UNMATCHED_TOKENS) for look in looks]
    if any(not samples for samples in seen):
        return None
    return max(sum(sample.value for sample in samples or ()) for samples in seen)
