"""OrphanDetectorBlind: the exporter or a configured store can't be read, or is stale."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import (
    Alert,
    Bearing,
    Case,
    Check,
    Firing,
    Kind,
    Rule,
    Severity,
    Variation,
)
from orphanwatch.alerts.gauge_cases import NO_COUNTER
from orphanwatch.alerts.promql import equals, highest_seen, seconds, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, climb, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import SECOND, format_duration
from orphanwatch.exporter.names import StoreName

NAME: Final = "OrphanDetectorBlind"


def expr(config: Config) -> str:
    """Return the arms of every configured store, each named.

    Named one by one, since ``absent`` over all of them stays silent while any one reports.
    Raises ``RenderError`` where no store is configured: such a detector is nothing but blind.
    """
    stores = config.stores.configured()
    if not stores:
        raise RenderError(
            "stores: none is configured, so no alert could ever fire; "
            "name at least one of gateway, leases, ledger, queue"
        )
    return "\nor\n".join(_store_expr(config, store) for store in stores)


def _store_expr(config: Config, store: StoreName) -> str:
    """Return one store's arms: unreadable, stale, or no exporter that speaks of it."""
    named = equals(names.STORE, store)
    # One replica with a good read is sight enough, hence the highest of both.
    unreadable = highest_seen(config, names.STORE_UP, named)
    last_success = highest_seen(config, names.STORE_LAST_SUCCESS, named)
    up = within(select(config, names.STORE_UP, named), timing.lookback(config))
    stale_age = seconds(timing.stale_age(config))
    return (
        f"{unreadable} == 0\nor\ntime() - {last_success} > {stale_age}\nor\nabsent_over_time({up})"
    )


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule; each configured store is an alert of its own by its label."""
    hold = timing.blind_hold(config)
    unseen = max(timing.lookback(config), timing.stale_age(config))
    return (
        Rule(
            expr=expr(config),
            hold=hold,
            severity=Severity.CRITICAL,
            description=(
                "Store {{ $labels.store }} has not been read for "
                f"{format_duration(timing.lookback(config))} or longer, or the exporter is gone: "
                f"what depends on it is unknown, not zero. {ACTION_WORDS[names.Action.BLIND]} "
                "Do not scale."
            ),
            time_to_page=timing.time_to_page(config, hold, before=unseen),
        ),
    )


def _firing(*stores: StoreName, by_absence: bool = False) -> tuple[Firing, ...]:
    return tuple(Firing(labels={names.STORE: store}, by_absence=by_absence) for store in stores)


def _length(config: Config) -> int:
    unseen = timing.stale_age(config) + timing.lookback(config) + timing.blind_hold(config)
    return timing.scrapes(config, unseen) + 4


def _reads(config: Config, count: int) -> Trace:
    # promtool's clock begins at 0, so the first read lies there too.
    return climb(0, config.scrape_interval / SECOND, count)


def _store(store: StoreName, up: Trace, success: Trace) -> tuple[Series, ...]:
    labels = {names.STORE: str(store)}
    return (
        Series(names.STORE_UP, up, labels),
        Series(names.STORE_LAST_SUCCESS, success, labels),
    )


def _stack(config: Config, length: int, lost: StoreName, *series: Series) -> tuple[Series, ...]:
    """Return the given store's series, and all others as they are in health."""
    others = (
        _store(store, flat(1, length), _reads(config, length))
        if store in config.stores.configured()
        else (Series(names.STORE_UP, flat(0, length), {names.STORE: str(store)}),)
        for store in StoreName
        if store != lost
    )
    return (*series, *(one for store in others for one in store))


def _unreadable(config: Config, store: StoreName) -> Case:
    down = _length(config)
    length = LEAD + down + 8
    up = lead(1) + flat(0, down) + flat(1, 8)
    frozen = LEAD - 1
    reads = _reads(config, length)
    success = (*reads[:LEAD], *flat(reads[frozen] or 0, down), *reads[-8:])
    return Case(
        kinds=(Kind.SOURCE_LOST,),
        name=f"the store {store} alone unreadable fires for it alone, and clears",
        series=_stack(config, length, store, *_store(store, up, success)),
        checks=(
            Check(alert=NAME, scrape=LEAD + 3),
            Check(alert=NAME, scrape=LEAD + down - 1, firing=_firing(store)),
            Check(alert=NAME, scrape=length - 1),
        ),
    )


def _stale(config: Config, store: StoreName) -> Case:
    down = _length(config)
    length = LEAD + down
    reads = _reads(config, length)
    success = (*reads[:LEAD], *flat(reads[LEAD - 1] or 0, down))
    return Case(
        name=f"the store {store} not read for too long fires, although it last read well",
        series=_stack(config, length, store, *_store(store, flat(1, length), success)),
        checks=(
            Check(alert=NAME, scrape=LEAD + 1),
            Check(alert=NAME, scrape=length - 1, firing=_firing(store)),
        ),
    )


def _aged(config: Config, kind: Kind, seconds_over: float) -> Case:
    """Return a store whose last good read stays a little under, at or over the limit."""
    store = config.stores.configured()[0]
    length = 2 * _length(config)
    age = timing.stale_age(config) / SECOND + seconds_over
    # promtool's clock begins at 0, where such a read would lie before all time.
    reads = climb(-age, config.scrape_interval / SECOND, length)
    fires = Check(alert=NAME, scrape=length - 1, firing=_firing(store))
    return Case(
        name=f"a last good read, {kind}: {'fires' if kind is Kind.JUST_ABOVE else 'silent'}",
        series=_stack(config, length, store, *_store(store, flat(1, length), reads)),
        checks=(fires,) if kind is Kind.JUST_ABOVE else (),
        never=() if kind is Kind.JUST_ABOVE else (NAME,),
        kinds=(kind,),
    )


def _born_blind(config: Config) -> Case:
    store = config.stores.configured()[0]
    length = LEAD + _length(config)
    zero = gone(LEAD) + flat(0, length - LEAD)
    return Case(
        name="a store that was never readable, from the first scrape on, fires",
        series=_stack(config, length, store, *_store(store, zero, zero)),
        checks=(Check(alert=NAME, scrape=length - 1, firing=_firing(store)),),
        kinds=(Kind.BORN,),
    )


def _exporter_gone(config: Config) -> Case:
    down = _length(config)
    stores = config.stores.configured()
    return Case(
        kinds=(Kind.STALE,),
        name="no exporter at all fires for every configured store",
        series=tuple(
            series
            for store in stores
            for series in _store(store, lead(1) + gone(down), _reads(config, LEAD) + gone(down))
        ),
        checks=(
            Check(alert=NAME, scrape=LEAD + 2),
            Check(alert=NAME, scrape=LEAD + down - 1, firing=_firing(*stores, by_absence=True)),
        ),
    )


def _silent(
    config: Config, name: str, up: Trace, success: Trace, kinds: tuple[Kind, ...] = ()
) -> Case:
    store = config.stores.configured()[0]
    return Case(
        name=name,
        series=_stack(config, len(up), store, *_store(store, up, success)),
        never=(NAME,),
        kinds=kinds,
    )


def _restart(config: Config) -> Case:
    rest = _length(config)
    reads = _reads(config, LEAD + 2 + rest)
    return _silent(
        config,
        "an exporter restart does not page",
        lead(1) + gone(2) + flat(1, rest),
        reads[:LEAD] + gone(2) + reads[LEAD + 2 :],
        (Kind.RESTART,),
    )


def _hiccup(config: Config) -> Case:
    rounds = _length(config)
    up: Trace = (1, 1, 0) * rounds
    reads = tuple(
        value if scrape % 3 < 2 else value - config.scrape_interval / SECOND  # noqa: PLR2004  (the third fails)
        for scrape, value in enumerate(_reads(config, len(up)))
        if value is not None
    )
    return _silent(config, "a store that fails one read in three does not page", up, reads)


def _healthy(config: Config) -> Case:
    length = 2 * _length(config)
    return _silent(
        config,
        "readable stores are silent, and one that is not configured is not missed",
        flat(1, length),
        _reads(config, length),
    )


def _one_replica_lost(config: Config) -> Case:
    store = config.stores.configured()[0]
    length = LEAD + _length(config)
    replica = config.replica_labels[0]
    good = _store(store, flat(1, length), _reads(config, length))
    bad = _store(store, flat(0, length), flat(0, length))
    return Case(
        name="one of two replicas that can't read is no blindness",
        series=_stack(
            config,
            length,
            store,
            *(Series(one.family, one.trace, one.labels | {replica: "a"}) for one in good),
            *(Series(one.family, one.trace, one.labels | {replica: "b"}) for one in bad),
        ),
        never=(NAME,),
        variations=(Variation.PLAIN, Variation.MISSED),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    stores = config.stores.configured()
    return (
        *(_unreadable(config, store) for store in stores),
        *(_stale(config, store) for store in stores),
        _aged(config, Kind.JUST_BELOW, -1),
        _aged(config, Kind.AT_THRESHOLD, 0),
        _aged(config, Kind.JUST_ABOVE, 1),
        _born_blind(config),
        _exporter_gone(config),
        _restart(config),
        _hiccup(config),
        _healthy(config),
        *((_one_replica_lost(config),) if config.replica_labels else ()),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.CRITICAL,
    bearing=Bearing.BLINDNESS,
    summary="The orphan detector can't see a store that it needs.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER,
)
