"""Where a drill without a config is played: on a SQLite file of its own, gone at its end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.tables import open_database

_OWN_CONFIG: Final = """\
pools:
  paid:     {role: paid, lease_cap: 2}
  overflow: {role: overflow}
stores:
  gateway: {type: sql, url: "sqlite:///drill.db", relation: tasks}
  leases:  {type: sql, url: "sqlite:///drill.db", relation: leases}
  ledger:  {type: sql, url: "sqlite:///drill.db", relation: ledger, shape: increments}
  queue:   {type: sql, url: "sqlite:///drill.db", relation: queue}
"""


@contextmanager
def config_or_own(config_file: Path | None) -> Iterator[tuple[Config, Path]]:
    """Yield a config and its folder: the named one, or one of the drill's own for the block."""
    if config_file is not None:
        yield load_config(config_file).as_of(wall_clock()), config_file.absolute().parent
        return
    with tempfile.TemporaryDirectory(prefix="orphanwatch-drill-") as name:
        folder = Path(name)
        own = folder / "orphanwatch.yml"
        own.write_text(_OWN_CONFIG, encoding="utf-8")
        open_database(folder / "drill.db").dispose()
        yield load_config(own), folder
