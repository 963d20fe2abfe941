"""The running version, stated once in the package's metadata."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("orphanwatch")
