"""How the serving process uses its interpreter and its C library: settings, each with a reason."""

import ctypes
import sys
from typing import Final

# A refresh computes for some hundred milliseconds. With the interpreter's default of 5 ms a
# scrape, which needs a turn at each of its reads and writes, would wait for several of them.
_TURN_SECONDS: Final = 0.0005

# glibc gives each thread an arena of its own, and none gives memory back to the others: a
# thread per store and several for the web would keep a tenth more than is needed.
_M_ARENA_MAX: Final = -8  # malloc.h


def settle_process() -> None:
    """Give scrapes their turn while a refresh computes, and let all threads share their memory."""
    sys.setswitchinterval(_TURN_SECONDS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # another C library has none, and no such arenas
        mallopt(_M_ARENA_MAX, 1)
