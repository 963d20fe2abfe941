#!/usr/bin/env python3
"""Draws the dashboards for the documentation: ``python docs/draw_dashboards.py [FOLDER]``.

It plays an incident on a small stack for a minute, with the real exporter and a real Prometheus;
asks every query of every panel; and draws what it is answered. Not Grafana: the layout, colours,
lines and words are those of our JSON, the drawing is our own.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from drawn_dashboards import write_picture
from incident import recorded_incident
from panel_answers import Window

from orphanwatch.dashboards.build import build

PICTURES: Final = Path(__file__).parent / "pictures"
LENGTH_SECONDS: Final = 58.0
EARLIER_SECONDS: Final = 2.0
FIRST_SCRAPES_SECONDS: Final = 4.0


def main() -> None:
    """Write one PNG for each dashboard."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        recorded_incident(Path(folder), LENGTH_SECONDS, EARLIER_SECONDS) as incident,
    ):
        window = Window(incident.start + FIRST_SCRAPES_SECONDS, time.time(), 1.0)
        for file, text in build(incident.config).items():
            picture = out / f"{file.removesuffix('.json')}.png"
            write_picture(json.loads(text), incident, window, picture)
            sys.stdout.write(f"{picture}\n")


if __name__ == "__main__":
    main()
