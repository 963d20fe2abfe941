"""Names that have a longest length, and stay apart when they are cut."""

import hashlib
from typing import Final

LONGEST_NAME: Final = 40
"""Of an alert and of a rule group, by our own lint."""
_DIGEST_SIGNS: Final = 6


def shortened(name: str, longest: int, told_by: str) -> str:
    """Return a name of at most ``longest`` characters; one that is cut ends in a digest.

    ``told_by`` is what the digest is of, so that no two become one.
    """
    if len(name) <= longest:
        return name
    return f"{name[: longest - _DIGEST_SIGNS - 1].rstrip('-')}-{digest(told_by)}"


def digest(text: str) -> str:
    """Return a few letters and digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_SIGNS]
