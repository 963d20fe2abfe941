"""Drills for the tests: on a SQLite file of their own, played without waiting."""

from pathlib import Path

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.tables import open_database
from orphanwatch.exporter.drill.faults import Fault, Mode
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.drill.run import LOOK_EVERY, Pace
from orphanwatch.exporter.drill.session import Plan, expected_mode, run_drill
from orphanwatch.exporter.instants import Instant, Micros

START = Instant(1_800_000_000_000_000)

CONFIG = """\
pools:
  paid:     {role: paid, lease_cap: 2}
  overflow: {role: overflow}
stores:
  gateway: {type: sql, url: "sqlite:///stack.db", relation: tasks}
  leases:  {type: sql, url: "sqlite:///stack.db", relation: leases}
  ledger:  {type: sql, url: "sqlite:///stack.db", relation: ledger, shape: SHAPE}
  queue:   {type: sql, url: "sqlite:///stack.db", relation: queue}
"""


def write_stack(folder: Path, shape: str = "increments") -> Config:
    """Write an empty stack with its config into a folder; return the config."""
    file = folder / "orphanwatch.yml"
    file.write_text(CONFIG.replace("SHAPE", shape), encoding="utf-8")
    open_database(folder / "stack.db").dispose()
    return load_config(file)


def drill(
    config: Config,
    folder: Path,
    fault: Fault | None = None,
    *,
    mode: Mode | None = None,
    seed: int = 0,
    knobs: Knobs | None = None,
    look_every: Micros = LOOK_EVERY,
    pace: Pace = lambda _offset: None,
) -> DrillReport:
    """Play one drill without waiting, and return its report; ``pace`` is called at each step."""
    plan = Plan(
        knobs=knobs or Knobs(),
        mode=mode or expected_mode(fault),
        fault=fault,
        seed=seed,
        look_every=look_every,
    )
    return run_drill(plan, config, folder, lambda _: (START, pace))
