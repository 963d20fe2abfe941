"""What tells one run of a drill, of whichever kind, from every other."""

import secrets
from typing import Final

_BYTES: Final = 4


def new_run() -> str:
    """Return the id of a new run: eight hex digits, which no two runs share."""
    return secrets.token_hex(_BYTES)
