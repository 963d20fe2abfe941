"""What a measuring found, told: for a tired person, and as the JSON of the contract."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from orphanwatch.exporter.grace.estimate import Findings, PoolGrace, as_seconds
from orphanwatch.exporter.instants import (
    Micros,
    format_bound,
    format_duration,
    format_instant,
    seconds,
    to_the_second,
)
from orphanwatch.exporter.names import GraceSource

_NOT: Final = "-"
_HEAD: Final = ("pool", "status", "grace", "estimate", "at most", "settled", "open")
_NUMBERS: Final = frozenset({"grace", "estimate", "at most", "settled", "open"})


def document_of(findings: Findings) -> dict[str, Any]:
    """Return the JSON document (contract, section 7); null is unknown, or what is not reached."""
    return {
        "at": seconds(findings.at),
        "pools": {
            name: {
                "quantile": pool.quantile,
                "estimate_seconds": as_seconds(pool.estimate),
                "upper_seconds": as_seconds(pool.upper),
                "in_force_seconds": as_seconds(grace_of(findings, name)),
                "settled": pool.settled,
                "open": pool.open,
                "status": str(pool.status),
                "reason": pool.reason,
                "source": str(pool.source),
            }
            for name, pool in findings.pools.items()
        },
    }


def grace_of(findings: Findings, name: str) -> Micros | None:
    """Return the grace that was measured, or the proposal that stays in force; None is unknown."""
    measured = findings.pools[name].measured
    return findings.in_force.get(name) if measured is None else measured


def lines_of(findings: Findings) -> Iterator[str]:
    """Yield the table, what each row rests on, and what to keep in mind."""
    terms, at = findings.terms, format_instant(to_the_second(findings.at))
    yield (
        f"Cancel grace at {at}: how long {100 * terms.quantile:g} "
        f"% of cancels take at most, by those of the last {format_duration(terms.window)}."
    )
    yield ""
    yield from _table([_HEAD, *(_row(findings, name) for name in findings.pools)])
    yield ""
    width = max(len(name) for name in findings.pools)
    for name, pool in findings.pools.items():
        yield f"{name:<{width}}  {_said(pool)}"
    yield ""
    yield (
        "At most: the upper 95 % bound of the estimate. A measured grace is that times "
        f"{terms.margin:g}, rounded up."
    )
    for note in findings.notes:
        yield f"Note: {note}."


def _said(pool: PoolGrace) -> str:
    words = f"{pool.status}: {pool.reason}"
    if pool.resolution is not None:
        words += f"; read from buckets, the bound's is {length(pool.resolution)} wide"
    return words


def _row(findings: Findings, name: str) -> tuple[str, ...]:
    pool = findings.pools[name]
    return (
        name,
        str(pool.status),
        length(grace_of(findings, name)),
        about(pool.estimate),
        length(pool.upper),
        _NOT if pool.settled is None else f"{pool.settled:,}",
        _NOT if pool.open is None else f"{pool.open:,}",
    )


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        cells = (
            f"{cell:>{width}}" if head in _NUMBERS else f"{cell:<{width}}"
            for cell, width, head in zip(row, widths, _HEAD, strict=True)
        )
        yield "  ".join(cells).rstrip()


class Files(NamedTuple):
    """The files that a measuring has to do with; None where there is none."""

    config: Path | None
    saved: Path | None
    """What was asked to be written."""
    read: Path | None
    """What the config reads."""


def next_step(findings: Findings, files: Files) -> str:
    """Return what to do next."""
    measured = [
        name for name, pool in findings.pools.items() if pool.status is GraceSource.MEASURED
    ]
    if not measured and findings.unknown:
        return "restore sight first: what can't be read is said above. Nothing changes until then."
    if not measured:
        return "nothing to save. What is in force stays; measure again when there is more."
    if files.saved is None:
        config, file = files.config or "orphanwatch.yml", files.read or "grace.yml"
        return f"put it in force: run again with --config.file {config} --save {file}."
    steps = "build rules, dashboards and runbook again, and restart or reload the exporter."
    if files.read is not None and files.read.resolve() == files.saved.resolve():
        return steps
    named = _as_written(files.saved, files.config)
    return f"let the config read it, by grace: {{file: {named}}}; {steps}"


def _as_written(saved: Path, config: Path | None) -> Path:
    """Return how a config names the saved file: by the way from its own folder, else in full."""
    whole = saved.resolve()
    folder = None if config is None else config.resolve().parent
    return whole.relative_to(folder) if folder and whole.is_relative_to(folder) else whole


def length(span: Micros | None) -> str:
    """Return a length of time in milliseconds or seconds, rounded up; ``-`` where there is none."""
    return _NOT if span is None else format_bound(span)


def about(span: Micros | None) -> str:
    """Return a length of time to the nearest millisecond; ``-`` where there is none."""
    return _NOT if span is None else format_bound(round(span / 1000) * 1000)
