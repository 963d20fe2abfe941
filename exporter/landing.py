"""The landing page: the answer first, then what it rests on. Works without JavaScript.

All decisions are made here; the template has loops and words. A value that is unknown is the
word "unknown", never a number.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import Instant, format_duration, format_instant, seconds
from orphanwatch.exporter.model import Evaluation, Orphan, Sample, StoreHealth
from orphanwatch.exporter.names import Action, Family, StoreName

SHOWN_ORPHANS: Final = 20
UNKNOWN: Final = "unknown"

_NO_EVALUATION: Final = (
    "No current evaluation: nothing is known. Treat it as blind, change nothing."
)
_NEVER: Final = "Nothing has been evaluated since the start."
_MARKS: Final = {Action.SHED: "✖", Action.BLIND: "?", Action.HOLD: "‖", Action.SCALE: "✔"}


class Cell(NamedTuple):
    """One shown value, and how it looks: ``bad``, ``warn``, ``unknown``, ``id``, ``tight``."""

    text: str
    look: str = ""


_BLANK: Final = Cell(UNKNOWN, "unknown")


class Banner(NamedTuple):
    """The answer: a state that the page is coloured by, the word, the sentence, the reasons."""

    state: str
    mark: str
    word: str
    sentence: str
    reasons: tuple[str, ...]
    at: str


class Row(NamedTuple):
    """One line of a table: what it is about, and its values."""

    name: str
    cells: tuple[Cell, ...]


class Landing:
    """Renders the page; the template is read once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._template = Environment(
            loader=PackageLoader("orphanwatch.exporter"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        ).get_template("landing.html.j2")

    def page(self, published: Published, now: Instant) -> bytes:
        """Return the page as UTF-8; ages are told at ``now``."""
        evaluation = published.evaluation
        orphans = evaluation.orphans if evaluation else ()
        text = self._template.render(
            banner=_banner(published, now),
            version=published.version,
            service=self._config.service,
            known=evaluation is not None,
            window=format_duration(self._config.delta_window),
            stores=tuple(_stores(evaluation, now)),
            pools=tuple(_pools(evaluation, self._config)) if evaluation else (),
            evidence=tuple(_evidence(evaluation)) if evaluation else (),
            orphans=tuple(_orphan(orphan) for orphan in orphans[:SHOWN_ORPHANS]),
            more_orphans=max(0, len(orphans) - SHOWN_ORPHANS),
            notes=evaluation.notes if evaluation else (),
        )
        return text.encode(errors="replace")


def _banner(published: Published, now: Instant) -> Banner:
    evaluation, last = published.evaluation, published.last_evaluated_at
    if evaluation is None:
        if last is None:
            return Banner("none", "∅", "no evaluation", _NO_EVALUATION, (_NEVER,), "")
        reasons = (f"The last evaluation is {_age(now, last)} old, too old to be shown.",)
        return Banner("none", "∅", "stale", _NO_EVALUATION, reasons, "")
    verdict = evaluation.verdict
    at = f"evaluated {_age(now, evaluation.at)} ago, at {format_instant(_whole(evaluation.at))}"
    return Banner(
        verdict.action.value,
        _MARKS[verdict.action],
        verdict.action.value,
        ACTION_WORDS[verdict.action],
        verdict.reasons,
        at,
    )


def _whole(instant: Instant) -> Instant:
    return Instant(instant - instant % 1_000_000)


def _stores(evaluation: Evaluation | None, now: Instant) -> Iterable[Row]:
    for store in StoreName:
        health = evaluation.stores.get(store) if evaluation else None
        yield Row(
            store.value, (_BLANK, _BLANK, Cell("")) if health is None else _health(health, now)
        )


def _health(health: StoreHealth, now: Instant) -> tuple[Cell, ...]:
    up = Cell("up") if health.up else Cell("can't be read", "bad")
    last = health.last_success
    age = Cell("never", "unknown") if last is None else Cell(f"{_age(now, last)} ago")
    return (up, age, Cell(health.problem))


def _pools(evaluation: Evaluation, config: Config) -> Iterable[Row]:
    for pool in config.pool_names:
        yield Row(
            pool,
            (
                _count(_of(evaluation, names.TOKEN_DELTA, pool), bad_above=0),
                _count(_of(evaluation, names.LEASES, pool), bad_above=0),
                _count(_of(evaluation, names.DUPLICATE_IN_FLIGHT, pool), bad_above=0),
                _count(_of(evaluation, names.LIVE_LEASES, pool)),
                _grace(evaluation, pool),
                _admission(evaluation, pool, overflow=pool in config.overflow_pools),
            ),
        )


def _grace(evaluation: Evaluation, pool: str) -> Cell:
    samples = _samples(evaluation, names.GRACE_SECONDS, pool)
    if not samples:
        return _BLANK
    return Cell(f"{_length(samples[0].value)} {samples[0].labels[1]}", "tight")


def _admission(evaluation: Evaluation, pool: str, *, overflow: bool) -> Cell:
    if not overflow:
        return Cell("not overflow")
    allowed = _of(evaluation, names.OVERFLOW_ADMISSION_ALLOWED, pool)
    if allowed is None:
        return _BLANK
    closed = [
        sample.labels[1].replace("_", " ")
        for sample in _samples(evaluation, names.FAIL_CLOSED, pool)
        if sample.value
    ]
    return Cell("open") if allowed else Cell(f"closed: {', '.join(closed)}", "warn")


def _evidence(evaluation: Evaluation) -> Iterable[Row]:
    rows = (
        ("queue depth", _count(_of(evaluation, names.QUEUE_DEPTH))),
        ("admission cap", _count(_of(evaluation, names.QUEUE_ADMISSION_CAP))),
        ("queue is calm", _truth(_of(evaluation, names.QUEUE_CALM))),
        ("spend, tokens/s", _count(_of(evaluation, names.SPEND_TOKENS_PER_SECOND))),
        ("its baseline, tokens/s", _count(_of(evaluation, names.SPEND_BASELINE_TOKENS_PER_SECOND))),
        ("spend is rising", _truth(_of(evaluation, names.SPEND_RISING), bad="warn")),
        ("attached tasks", _count(_of(evaluation, names.ATTACHED_TASKS))),
        ("in-flight gap", _count(_of(evaluation, names.IN_FLIGHT_GAP))),
        ("split signal", _truth(_of(evaluation, names.SPLIT_SIGNAL), bad="bad")),
    )
    return (Row(name, (cell,)) for name, cell in rows)


def _orphan(orphan: Orphan) -> Row:
    live = {True: Cell("live", "bad"), False: Cell("gone"), None: _BLANK}[orphan.lease_live]
    return Row(
        orphan.task_id or "no id",
        (
            Cell(orphan.retry_id, "id") if orphan.retry_id else Cell("no id", "unknown"),
            Cell(orphan.worker_id, "id") if orphan.worker_id else _BLANK,
            Cell(orphan.pool),
            Cell(orphan.cause.value.replace("_", " ")),
            Cell(_length(orphan.seconds_past_cutoff)),
            _count(orphan.orphan_tokens),
            live,
        ),
    )


def _samples(evaluation: Evaluation, family: Family, pool: str | None) -> tuple[Sample, ...]:
    samples = evaluation.gauges.get(family, ())
    if pool is None:
        return samples
    place = family.labels.index(names.POOL)
    return tuple(sample for sample in samples if sample.labels[place] == pool)


def _of(evaluation: Evaluation, family: Family, pool: str | None = None) -> float | None:
    """Return a gauge, summed over the labels that are not asked for; None where it is unknown."""
    samples = _samples(evaluation, family, pool)
    return sum(sample.value for sample in samples) if samples else None


def _count(number: float | None, bad_above: float | None = None) -> Cell:
    if number is None:
        return _BLANK
    text = f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"
    if text == "0.0":
        text = "under 0.1"  # a fraction must not read as zero
    return Cell(text, "bad" if bad_above is not None and number > bad_above else "")


def _truth(number: float | None, bad: str = "") -> Cell:
    if number is None:
        return _BLANK
    return Cell("yes", bad) if number else Cell("no")


def _age(now: Instant, then: Instant) -> str:
    return _length(max(0.0, seconds(now - then)))


def _length(span: float) -> str:
    """Return a length of time in its two largest units, short ones to the millisecond."""
    if span < 10:  # noqa: PLR2004  (under ten seconds the fraction matters)
        return f"{span:.3f}".rstrip("0").rstrip(".") + " s"
    whole = round(span)
    units = (("d", whole // 86400), ("h", whole // 3600 % 24), ("min", whole // 60 % 60))
    parts = [f"{count} {unit}" for unit, count in units if count] or []
    if whole % 60 or not parts:
        parts.append(f"{whole % 60} s")
    return " ".join(parts[:2])
