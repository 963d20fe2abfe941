"""OrphanSplitSignal: the picture of 02:17, while both arms see nothing."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.catalogue import leases_alive, tokens_accruing
from orphanwatch.alerts.gauge_cases import Gauge, gauge_cases, wherever
from orphanwatch.alerts.promql import across_replicas, indented, last_seen
from orphanwatch.alerts.selector_labels import tells_jobs_apart
from orphanwatch.alerts.templates import told_of_own_job
from orphanwatch.alerts.traces import ANOTHER_JOB, LEAD, Series, Trace, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanSplitSignal"

_POOL: Final = {names.POOL: "overflow"}


def expr(config: Config) -> str:
    """Return the split signal, unless an arm sees orphans: then that arm's alert speaks."""
    # The last sample and not the highest: spend is noisy, and one spike must not linger.
    split = across_replicas(config, last_seen(config, names.SPLIT_SIGNAL))
    # Likewise for the arms: a straggler of a minute ago must not hide the split of now.
    read = "last_over_time"
    arms = f"{tokens_accruing.expr(config, read)}\nor\n{leases_alive.expr(config, read)}"
    return f"{split} > 0\nunless ignoring ({names.POOL}) (\n{indented(arms)}\n)"


def _spend_sentence(config: Config) -> str:
    return told_of_own_job(
        across_replicas(config, last_seen(config, names.SPEND_TOKENS_PER_SECOND)),
        " Spend is {{ .Value | humanize }} tokens per second.",
    )


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: at most two minutes of contradiction."""
    hold = timing.split_hold(config)
    return (
        Rule(
            expr=expr(config),
            hold=hold,
            severity=Severity.CRITICAL,
            description=(
                "The queue is calm and spend rises after clients left, but no orphan is found: "
                f"the ledger or the ids are lying.{_spend_sentence(config)} "
                "Shed overflow and check the ledger's keys; do not scale."
            ),
            time_to_page=timing.time_to_page(config, hold, before=config.lag),
        ),
    )


def _length(config: Config) -> int:
    return timing.scrapes(config, timing.split_hold(config)) + 4


def _stories(split: Trace, delta: Trace, confirmed: Trace) -> tuple[Series, ...]:
    return (
        Series(names.SPLIT_SIGNAL, lead(0) + split),
        Series(names.SPEND_TOKENS_PER_SECOND, flat(120, LEAD + len(split))),
        Series(names.TOKEN_DELTA, lead(0) + delta, _POOL),
        Series(names.LEASES_CONFIRMED, lead(0) + confirmed, _POOL),
    )


def _firing(config: Config) -> tuple[Firing, ...]:
    spoken = " Spend is 120 tokens per second."
    return (Firing(words={_spend_sentence(config): spoken}),)


def _signal(config: Config) -> Gauge:
    return Gauge(
        alert=NAME,
        hold=timing.split_hold(config),
        series=lambda split: (
            Series(names.SPLIT_SIGNAL, split),
            Series(names.SPEND_TOKENS_PER_SECOND, wherever(120, split)),
            Series(names.TOKEN_DELTA, wherever(0, split), _POOL),
            Series(names.LEASES_CONFIRMED, wherever(0, split), _POOL),
        ),
        firing=lambda _: _firing(config),
        at=0,
        above=1,
    )


def _contradiction(config: Config) -> Case:
    length = _length(config)
    ends = LEAD + length
    zero = flat(0, length + 8)
    return Case(
        name="calm depth with rising spend that no arm explains fires, and clears",
        series=_stories(flat(1, length) + flat(0, 8), zero, zero),
        checks=(
            Check(alert=NAME, scrape=ends - 6),
            Check(alert=NAME, scrape=ends - 3, firing=_firing(config)),
            Check(alert=NAME, scrape=ends + 7),
        ),
    )


def _arms_blind(config: Config) -> Case:
    length = _length(config)
    return Case(
        name="it needs neither arm: with both stores lost it still fires",
        series=_stories(flat(1, length), gone(length), gone(length)),
        checks=(Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(config)),),
    )


def _explained(config: Config, *, by_tokens: bool) -> Case:
    length = 2 * _length(config)
    seen = flat(config.thresholds.token_delta + 5, length)
    zero = flat(0, length)
    return Case(
        name=f"orphan {'tokens' if by_tokens else 'leases'} that an arm sees leave it silent",
        series=_stories(flat(1, length), seen if by_tokens else zero, zero if by_tokens else seen),
        never=(NAME,),
    )


def _counter_reset(config: Config) -> Case:
    length = _length(config)
    half = length // 2
    charged = lead(50000) + flat(50000, half) + flat(0, length - half)
    signal = _signal(config)
    return Case(
        name="a counter that starts again is no orphan token, and does not hide the split",
        series=(
            *signal.series(lead(0) + flat(1, length)),
            Series(names.TOKENS_TOTAL, charged, _POOL),
        ),
        checks=(Check(alert=NAME, scrape=LEAD + length - 3, firing=_firing(config)),),
        kinds=(Kind.COUNTER_RESET,),
    )


def _healthy(config: Config) -> Case:
    zero = flat(0, 3 * _length(config))
    return Case(name="steady spend is silent", series=_stories(zero, zero, zero), never=(NAME,))


def _noise(config: Config) -> Case:
    shown = max(1, timing.scrapes(config, timing.split_hold(config)) // 2 - 1)
    spikes = (flat(1, shown) + flat(0, 2)) * 6
    zero = flat(0, len(spikes))
    return Case(
        name="spikes of spend shorter than the hold do not add up to a page",
        series=_stories(spikes, zero, zero),
        never=(NAME,),
    )


def _another_job(config: Config) -> Case:
    length = _length(config)
    zero = flat(0, length)
    return Case(
        name="the spend of another job in the same Prometheus is not told as this one's",
        series=(
            *_stories(flat(1, length), zero, zero),
            Series(names.SPEND_TOKENS_PER_SECOND, flat(999, LEAD + length), ANOTHER_JOB),
        ),
        checks=(Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(config)),),
    )


def _source_lost(config: Config) -> Case:
    length = 2 * _length(config)
    zero = flat(0, length)
    return Case(
        name="a queue that is lost makes no claim about a split",
        series=_stories(gone(length), zero, zero),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (
        *gauge_cases(config, _signal(config)),
        _contradiction(config),
        _counter_reset(config),
        _arms_blind(config),
        _explained(config, by_tokens=True),
        _explained(config, by_tokens=False),
        _healthy(config),
        _noise(config),
        _source_lost(config),
        *((_another_job(config),) if tells_jobs_apart(config) else ()),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.CRITICAL,
    bearing=Bearing.EVIDENCE,
    summary="Spend rises while the queue is calm and clients left.",
    rules=rules,
    cases=cases,
    excused={Kind.JUST_BELOW: "the signal is 0 or 1, and 0 is the threshold"},
)
