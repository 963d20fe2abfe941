"""Compares whole pages with the committed ones; ``REWRITE_GOLDEN=1`` writes them anew."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden" / "pages"


def golden(name: str, page: bytes) -> bytes:
    """Return the committed page, which was just rewritten where that was asked for."""
    path = FOLDER / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page)
    return path.read_bytes()
