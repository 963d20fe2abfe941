"""Made-up published values, one for each state that the pages must show."""

from dataclasses import dataclass, replace
from types import MappingProxyType

from orphanwatch.exporter import names
from orphanwatch.exporter.board import BUCKET_EDGES, Exemplar, HistogramValue, Published
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.gate import Gate, PoolGate
from orphanwatch.exporter.history import Moment
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Evaluation, Finding, Orphan, Sample, StoreHealth, Verdict
from orphanwatch.exporter.names import (
    FAMILIES,
    Action,
    Cause,
    Condition,
    Family,
    GraceSource,
    Kind,
    StoreName,
)

AT = Instant(1_700_000_000_000_000)
VERSION = "0.1.0"
LABELS = {
    "pool": "overflow",
    "cause": "client_cancel",
    "basis": "charged",
    "store": "ledger",
    "reason": "adjustment",
    "key": "worker",
    "ledger": "without",
    "task": "without",
    "source": "proposal",
    "condition": "orphan_tokens",
    "version": VERSION,
}


@dataclass
class FakeBoard:
    """A board that shows what it is told to."""

    published: Published

    def current(self) -> Published:
        """Return what was put on the board."""
        return self.published


def config() -> Config:
    """Return the config of a stack with a paid and an overflow pool."""
    store = {"type": "sql", "url": "sqlite:///stack.db"}
    return parse_config(
        {
            "pools": {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}},
            "stores": {
                "gateway": store,
                "leases": store,
                "ledger": {**store, "shape": "increments"},
                "queue": store,
            },
        }
    )


def orphan(number: int = 1, **changes: object) -> Orphan:
    """Return an orphan that still holds its lease."""
    whole = Orphan(
        task_id=f"chatcmpl-7f3a91c2{number:04d}",
        retry_id=f"req-{number:04d}",
        pool="overflow",
        worker_id=f"decode-{number % 5}",
        cause=Cause.CLIENT_CANCEL,
        abandoned_at=Instant(AT - 63_500_000),
        cutoff_at=Instant(AT - 62_500_000),
        orphan_tokens=2480.0 - number,
        lease_live=True,
        seconds_past_cutoff=62.5,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # the tests name real fields


def by_pool(paid: float, overflow: float, other: float = 0.0) -> tuple[Sample, ...]:
    """Return one sample for each pool."""
    values = {"overflow": overflow, "paid": paid, "other": other}
    return tuple(Sample((pool,), value) for pool, value in values.items())


def calm_gauges() -> dict[Family, tuple[Sample, ...]]:
    """Return the gauges of a stack where nothing is wrong."""
    conditions = [Sample(("overflow", condition), 0.0) for condition in Condition]
    return {
        names.TOKEN_DELTA: by_pool(0, 0),
        names.LEASES: tuple(
            Sample((pool, cause), 0.0) for pool in ("overflow", "paid", "other") for cause in Cause
        ),
        names.DUPLICATE_IN_FLIGHT: by_pool(0, 0),
        names.LIVE_LEASES: by_pool(2, 31),
        names.GRACE_SECONDS: tuple(
            Sample((pool, GraceSource.PROPOSAL), 1.0) for pool in ("overflow", "paid", "other")
        ),
        names.QUEUE_DEPTH: (Sample((), 4.0),),
        names.QUEUE_ADMISSION_CAP: (Sample((), 64.0),),
        names.QUEUE_CALM: (Sample((), 1.0),),
        names.SPEND_TOKENS_PER_SECOND: (Sample((), 1180.4),),
        names.SPEND_BASELINE_TOKENS_PER_SECOND: (Sample((), 1204.0),),
        names.SPEND_RISING: (Sample((), 0.0),),
        names.ATTACHED_TASKS: (Sample((), 30.2),),
        names.IN_FLIGHT_GAP: (Sample((), 0.0),),
        names.SPLIT_SIGNAL: (Sample((), 0.0),),
        names.FAIL_CLOSED: tuple(conditions),
        names.OVERFLOW_ADMISSION_ALLOWED: (Sample(("overflow",), 1.0),),
        names.STORE_UP: tuple(Sample((store,), 1.0) for store in StoreName),
    }


def evaluation(action: Action, *reasons: str, **changes: object) -> Evaluation:
    """Return an evaluation with a verdict, calm in all that is not named."""
    health = StoreHealth(up=True, last_success=Instant(AT - 900_000), clock_skew_seconds=0.01)
    calm = Evaluation(
        at=AT,
        gauges=calm_gauges(),
        verdict=Verdict(action=action, reasons=reasons),
        orphans=(),
        stores=dict.fromkeys(StoreName, health),
        tallies=(),
        propagations=(),
        open_tasks=(),
        rejected=(),
        last_evidence=None,
    )
    return replace(calm, **changes)  # type: ignore[arg-type]  # the tests name real fields


def gate(seen: Evaluation) -> Gate:
    """Return the gate that such an evaluation leaves: open only where it may be scaled."""
    told = {sample.labels[1]: sample.value > 0 for sample in seen.gauges.get(names.FAIL_CLOSED, ())}
    is_open = seen.verdict.action is Action.SCALE
    pool = PoolGate(
        is_open=is_open,
        reasons=(),
        conditions={each: Finding(told.get(each)) for each in Condition},
        opens_at=None if is_open else Instant(AT + 180_000_000),
    )
    return Gate(
        at=AT,
        action=seen.verdict.action,
        is_open=is_open,
        reasons=(),
        last_sign=None,
        pools={"overflow": pool},
    )


def history_up_to(action: Action) -> tuple[Moment, ...]:
    """Return twelve calm minutes, one in which the queue was out of sight, then the present."""
    calm = [_moment(age, Action.SCALE, 1200.0, 0.0) for age in range(780, 120, -5)]
    dark = [replaced._replace(depth=None) for replaced in calm[60:72]]
    leak = action is Action.SHED
    now = [
        _moment(age, action, 1200.0 + leak * (120 - age) * 6, leak * 300.0)
        for age in range(120, 0, -5)
    ]
    return (*calm[:60], *dark, *calm[72:], *now)


def _moment(age: int, action: Action, spend: float, orphan: float) -> Moment:
    return Moment(
        at=Instant(AT - age * 1_000_000),
        action=action,
        depth=4.0 + age % 3,
        calm_limit=32.0,
        spend=None if action is Action.BLIND else spend,
        baseline=None if action is Action.BLIND else 1204.0,
        orphan=None if action is Action.BLIND else orphan,
    )


def published(seen: Evaluation | None, **changes: object) -> Published:
    """Return a published value with one orphan counted, and an exemplar for it."""
    tokens = ("overflow", "client_cancel", "charged")
    whole = Published(
        version=VERSION,
        evaluation=seen,
        counters={names.TOKENS_TOTAL: {tokens: 2479.0}},
        histograms={names.CANCEL_PROPAGATION_SECONDS: {("overflow",): histogram(18)}},
        exemplars={
            (names.TOKENS_TOTAL, tokens): Exemplar(
                labels={"task_id": "chatcmpl-1", "retry_id": "req-1"},
                value=2479.0,
                timestamp=1_700_000_000.5,
            )
        },
        last_evaluated_at=seen.at if seen else None,
        history=history_up_to(seen.verdict.action) if seen else (),
        gate=gate(seen) if seen else None,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # the tests name real fields


def histogram(edges: int) -> HistogramValue:
    """Return a histogram of as many samples as edges, one in each bucket."""
    return HistogramValue(
        buckets=tuple(float(n + 1) for n in range(edges)), sum=12.5, count=float(edges)
    )


def whole_page() -> Published:
    """Return a value in which every family has a sample."""
    gauges = {
        family: (Sample(tuple(LABELS[label] for label in family.labels), 1.5),)
        for family in FAMILIES
        if family.kind is Kind.GAUGE
    }
    return published(
        evaluation(Action.SCALE, gauges=MappingProxyType(gauges)),
        counters={
            family: {tuple(LABELS[label] for label in family.labels): 7.0}
            for family in FAMILIES
            if family.kind is Kind.COUNTER
        },
        histograms={
            family: {tuple(LABELS[label] for label in family.labels): histogram(len(edges))}
            for family, edges in BUCKET_EDGES.items()
        },
    )


def shed() -> Published:
    """Return the picture of 02:17."""
    gauges = calm_gauges() | {
        names.TOKEN_DELTA: by_pool(0, 18_432),
        names.LEASES: (
            *(Sample((pool, Cause.CLIENT_CANCEL), 0.0) for pool in ("paid", "other")),
            Sample(("overflow", Cause.CLIENT_CANCEL), 21.0),
            Sample(("overflow", Cause.DEADLINE), 4.0),
        ),
        names.SPEND_TOKENS_PER_SECOND: (Sample((), 1944.8),),
        names.SPEND_RISING: (Sample((), 1.0),),
        names.SPLIT_SIGNAL: (Sample((), 1.0),),
        names.IN_FLIGHT_GAP: (Sample((), 25.0),),
        names.FAIL_CLOSED: (
            Sample(("overflow", Condition.ORPHAN_TOKENS), 1.0),
            Sample(("overflow", Condition.NO_CANCEL_CHANNEL), 1.0),
        ),
        names.OVERFLOW_ADMISSION_ALLOWED: (Sample(("overflow",), 0.0),),
    }
    orphans = [orphan(number) for number in range(1, 24)]
    orphans[1] = orphan(2, worker_id=None, orphan_tokens=None, retry_id=None)
    orphans[2] = orphan(3, lease_live=None, orphan_tokens=0.04)
    orphans[3] = orphan(4, task_id="<script>alert('x')</script>" + "A" * 120, lease_live=False)
    seen = evaluation(
        Action.SHED,
        "18,432 orphan tokens in pool overflow within the last minute.",
        "25 orphan leases in pool overflow, the oldest 2 min past its cutoff.",
        gauges=gauges,
        orphans=tuple(orphans),
    )
    return published(seen)


def blind() -> Published:
    """Return what is left when the ledger can't be read."""
    gauges = calm_gauges()
    for family in (
        names.TOKEN_DELTA,
        names.SPEND_TOKENS_PER_SECOND,
        names.SPEND_BASELINE_TOKENS_PER_SECOND,
        names.SPEND_RISING,
        names.SPLIT_SIGNAL,
    ):
        del gauges[family]
    unknown = {Condition.ORPHAN_TOKENS, Condition.LEDGER_KEYED_BY_HOST}
    gauges[names.FAIL_CLOSED] = tuple(
        Sample(("overflow", condition), float(condition is Condition.BLIND))
        for condition in Condition
        if condition not in unknown
    )
    gauges[names.OVERFLOW_ADMISSION_ALLOWED] = (Sample(("overflow",), 0.0),)
    seen = evaluation(Action.BLIND, "The ledger can't be read: no answer within 5 s.")
    down = StoreHealth(
        up=False, problem="no answer within 5s", last_success=Instant(AT - 754_000_000)
    )
    return published(
        replace(
            seen,
            gauges=gauges,
            stores={**seen.stores, StoreName.LEDGER: down},
            notes=("Without a ledger, orphan tokens and spend are unknown.",),
        )
    )


def hold() -> Published:
    """Return a stack that was mended two minutes ago."""
    return published(
        evaluation(Action.HOLD, "The last orphan charge was 2 min ago; hold until it is 5 min.")
    )


def scale() -> Published:
    """Return a healthy stack."""
    return published(
        evaluation(Action.SCALE, "no orphan tokens, no orphan lease and no duplicate in flight")
    )


def nothing_yet() -> Published:
    """Return what is there before the first evaluation."""
    return published(None, counters={}, histograms={}, exemplars={})


def stale() -> Published:
    """Return what is there when the refresh loop has been stuck for two minutes."""
    return published(None, last_evaluated_at=Instant(AT - 130_000_000))
