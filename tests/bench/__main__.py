"""The benchmark: ``make bench``, or ``python tests/bench [--small] [--plans]``.

Builds a stack at scale in a folder of its own, measures, prints one table with what was aimed at
and what was reached, and removes the folder. Exit code 0 also where an aim was missed: figures
are to be read, and a machine that does other work meanwhile tells nothing; 1 where the product
and the hand-written SQL give different answers, since then nothing was compared.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parent.parent))  # the tests' own servers

from gate_under_load import RATE, SLOW_SECONDS, GateTimes, measure_gate
from postgresql_at_scale import refresh_on_postgresql
from redis_at_scale import (
    FULL_LEASES,
    RATIO_TO_BARE,
    SMALL_LEASES,
    RedisComparison,
    compare_on_redis,
)
from refreshes import Comparison, Timing, compare, config_on, numbers_of, plans_of
from serving import Served, measure_serve
from stack_at_scale import Size, build_stack

FULL: Final = Size(tasks=100_000, abandoned=2_000, live_leases=20_000, ledger_rows=1_000_000)
SMALL: Final = Size(tasks=2_000, abandoned=40, live_leases=400, ledger_rows=20_000)
AT: Final = 1_700_000_000.0
MEGABYTE: Final = 1_000_000

RATIO_TO_HAND: Final = 1.5
RATIO_TO_SMALLER: Final = 1.2
PEAK_MEGABYTES: Final = 120.0
P99_MILLISECONDS: Final = 20.0
GATE_P99_MILLISECONDS: Final = 20.0
GATE_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Row:
    """One line of the table; without an aim it only informs."""

    what: str
    figure: str
    aim: str = ""
    verdict: str = ""


def main() -> int:
    """Measure everything and print it; return the exit code."""
    options = _options()
    size, rounds = (SMALL, 3) if options.small else (FULL, 7)
    with tempfile.TemporaryDirectory(prefix="orphanwatch-bench-") as name:
        folder = Path(name)
        file = folder / "stack.db"
        _say(f"building {size.ledger_rows:,} ledger rows")
        began = time.monotonic()
        build_stack(file, size, AT, config_on(file))
        built_in = time.monotonic() - began
        _say("refreshing")
        first = compare(file, AT, rounds)
        plans = list(plans_of(file, first.statements))
        _say("copying to PostgreSQL and refreshing")
        once = refresh_on_postgresql(folder, file, AT, rounds)
        file.unlink()
        served = _serve(folder, size, built_in, small=options.small)
        gates = _gates(folder, small=options.small)
        second, tenfold = _compare_with_history(folder, size, rounds)
        _say("refreshing on leases in Redis")
        listed = compare_on_redis(folder, SMALL_LEASES if options.small else FULL_LEASES, rounds)
    _print_table(
        [
            *_refresh_rows(size, first, second),
            *_postgresql_rows(size, once, tenfold),
            *_redis_rows(listed),
            *_serve_rows(served),
            *_gate_rows("", gates[0]),
            *_gate_rows(f", a store takes {SLOW_SECONDS:g} s", gates[1]),
        ]
    )
    _print_plans(plans, whole=options.plans)
    disagreements = (
        *first.disagreements,
        *second.disagreements,
        *_differences(first, once),
        *_differences(second, tenfold),
        *listed.disagreements,
    )
    print()
    for line in disagreements or ("The hand-written SQL gives the same numbers as the product.",):
        print(line)
    return int(bool(disagreements))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench", description="Measure the exporter.")
    parser.add_argument("--small", action="store_true", help="a tiny stack: does it run at all?")
    parser.add_argument("--plans", action="store_true", help="print every statement and its plan")
    return parser.parse_args()


def _say(doing: str) -> None:
    print(f"bench: {doing} ...", file=sys.stderr, flush=True)


def _compare_with_history(
    folder: Path, size: Size, rounds: int
) -> tuple[Comparison, Timing[dict[str, float]]]:
    larger = replace(size, history_rows=9 * size.ledger_rows)
    _say(f"building {10 * size.ledger_rows:,} ledger rows")
    file = folder / "larger.db"
    build_stack(file, larger, AT, config_on(file))
    _say("refreshing")
    comparison = compare(file, AT, rounds)
    _say("copying to PostgreSQL and refreshing")
    return comparison, refresh_on_postgresql(folder, file, AT, rounds)


def _differences(comparison: Comparison, copy: Timing[dict[str, float]]) -> Iterator[str]:
    """Yield where a refresh on PostgreSQL says something else than the one on SQLite."""
    readings, evaluation = comparison.refresh.answer
    for name, value in numbers_of(readings, evaluation, config_on(Path("stack.db"))).items():
        own = copy.answer.get(name)
        if own is None or not isclose(own, value, rel_tol=1e-6):
            yield f"{name}: {own} on PostgreSQL, {value} on SQLite"


def _postgresql_rows(
    size: Size, once: Timing[dict[str, float]], tenfold: Timing[dict[str, float]]
) -> Iterator[Row]:
    yield Row(f"refresh on PostgreSQL, {size.ledger_rows:,} ledger rows", f"{once.seconds:.3f} s")
    yield Row(
        f"refresh on PostgreSQL, {10 * size.ledger_rows:,} ledger rows",
        f"{tenfold.seconds:.3f} s",
    )
    yield _judged(
        "PostgreSQL, ten times the ledger / once", tenfold.seconds / once.seconds,
        RATIO_TO_SMALLER, "x",
    )  # fmt: skip


def _redis_rows(listed: RedisComparison) -> Iterator[Row]:
    yield Row(f"refresh, {listed.leases:,} live leases in Redis", f"{listed.refresh.seconds:.3f} s")
    yield Row("their bare pipelined reads", f"{listed.by_hand.seconds:.3f} s")
    ratio = listed.refresh.seconds / listed.by_hand.seconds
    yield _judged("refresh on Redis / bare reads", ratio, RATIO_TO_BARE, "x")


def _serve(folder: Path, size: Size, built_in: float, *, small: bool) -> Served:
    """Measure a server on a stack whose hour ends when the server starts."""
    ahead = 1.2 * built_in + 1.0
    _say("building a stack that ends now")
    file = folder / "live.db"
    at = time.time() + ahead
    build_stack(file, size, at, config_on(file))
    time.sleep(max(0.0, at - time.time()))
    _say("serving")
    served = measure_serve(file, folder, 40 if small else 600, 0.005 if small else 0.02)
    file.unlink()
    return served


def _gates(folder: Path, *, small: bool) -> tuple[GateTimes, GateTimes]:
    """Measure the gate on a small stack, with quick stores, then with a slow one."""
    file = folder / "gate.db"
    build_stack(file, SMALL, time.time(), config_on(file))
    length = 2.0 if small else GATE_SECONDS
    _say(f"asking the gate {RATE} times a second")
    quick = measure_gate(file, folder, length, slow=False)
    _say("the same, with a slow store")
    return quick, measure_gate(file, folder, length, slow=True)


def _refresh_rows(size: Size, first: Comparison, second: Comparison) -> Iterator[Row]:
    rows = f"{size.ledger_rows:,} ledger rows"
    refresh, by_hand, later = first.refresh, first.by_hand, second.refresh
    yield Row(f"refresh, {rows}", f"{refresh.seconds:.3f} s")
    yield Row(f"the same by hand, {rows}", f"{by_hand.seconds:.3f} s")
    yield _judged("refresh / by hand", refresh.seconds / by_hand.seconds, RATIO_TO_HAND, "x")
    yield Row(
        "refresh / by hand, processor time", f"{refresh.cpu_seconds / by_hand.cpu_seconds:.2f} x"
    )
    yield Row(f"refresh, {10 * size.ledger_rows:,} ledger rows", f"{later.seconds:.3f} s")
    yield _judged(
        "refresh, ten times the ledger / once", later.seconds / refresh.seconds, RATIO_TO_SMALLER,
        "x",
    )  # fmt: skip
    yield Row(
        "ten times / once, processor time", f"{later.cpu_seconds / refresh.cpu_seconds:.2f} x"
    )


def _serve_rows(served: Served) -> Iterator[Row]:
    yield _judged("serve, peak memory", served.peak_bytes / MEGABYTE, PEAK_MEGABYTES, "MB")
    yield _judged("scrape while refreshing, p99", served.p99_seconds * 1e3, P99_MILLISECONDS, "ms")
    yield Row("scrapes", f"{len(served.scrape_seconds)}")
    yield Row("scrape, median", f"{_median(served.scrape_seconds) * 1e3:.2f} ms")
    yield Row("refreshes meanwhile", f"{served.refreshes}")
    yield Row("one of them took", f"{served.refresh_seconds:.3f} s")
    yield Row("a refresh was running", f"{served.refreshing_share:.0%} of the time")
    yield Row("live leases on the last page", f"{served.live_leases:,.0f}")


def _gate_rows(where: str, gate: GateTimes) -> Iterator[Row]:
    p99 = gate.percentile(99) * 1e3
    yield _judged(f"gate{where}, p99", p99, GATE_P99_MILLISECONDS, "ms")
    yield Row(f"gate{where}, median", f"{gate.percentile(50) * 1e3:.2f} ms")
    yield Row(f"gate{where}, longest", f"{gate.taken[-1] * 1e3:.1f} ms")
    yield Row(f"gate{where}, answers a second", f"{gate.rate:.0f}")


def _median(ordered: tuple[float, ...]) -> float:
    return ordered[len(ordered) // 2]


def _judged(what: str, value: float, aim: float, unit: str) -> Row:
    if value <= aim:
        verdict = "reached"
    else:
        verdict = f"missed by {value - aim:.2f} {unit} ({value / aim - 1:.0%})"
    return Row(what, f"{value:.2f} {unit}", f"<= {aim:g} {unit}", verdict)


def _print_table(rows: list[Row]) -> None:
    lines = [
        ("", "figure", "aim", ""),
        *((row.what, row.figure, row.aim, row.verdict) for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for what, figure, aim, verdict in lines:
        print(f"{what:<{widths[0]}}  {figure:>{widths[1]}}  {aim:>{widths[2]}}  {verdict}".rstrip())


def _print_plans(plans: list[tuple[str, list[str]]], *, whole: bool) -> None:
    """Print what each statement was found by: tables that are read whole are the point."""
    print()
    print("Plans of one refresh:" if whole else "Plans of one refresh (--plans: with statements):")
    counted: dict[str, int] = {}
    for statement, steps in plans:
        if whole:
            print(f"\n{statement}\n" + "\n".join(f"    {step}" for step in steps))
        for step in steps:
            if step.startswith(("SCAN", "SEARCH")) and "VIRTUAL TABLE" not in step:
                counted[step] = counted.get(step, 0) + 1
    if not whole:
        for step, times in sorted(counted.items()):
            print(f"  {times:>2} x {step}")


if __name__ == "__main__":
    sys.exit(main())
