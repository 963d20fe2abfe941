"""Python's patterns written for PostgreSQL, which knows no flags but those of a whole pattern.

``(?i:a1)`` is written as ``(?:[aA]1)``. All else the two have in common, or PostgreSQL says that
it can't read it.
"""

import re
from typing import Final

_GROUP: Final = re.compile(r"\(\?(?P<on>[aisu]*)(?:-(?P<off>[is]+))?:")
"""The start of a group with flags. With s or without, a dot is any character here; a and u say
which letters there are beyond ASCII, about which the two differ anyway."""
_KINDS: Final = {
    "(": _GROUP,
    "[": re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL),
    "\\": re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL),
}
"""What a character may begin, by that character."""
_IN_CLASS: Final = re.compile(r"\\.|([^\\])-([^]\\])|.", re.DOTALL)


def without_inner_flags(pattern: str) -> str:
    """Return a pattern that matches the same, the letters of either case spelled out."""
    written: list[str] = []
    ignores = [False]  # whether case is ignored, in each group that is open
    place = 0
    while place < len(pattern):
        part = _part_at(pattern, place)
        place += len(part)
        group = _GROUP.fullmatch(part)
        if group is not None:
            is_off = "i" in (group["off"] or "")
            ignores.append("i" in group["on"] or (ignores[-1] and not is_off))
            part = "(?:"
        elif part == "(":
            ignores.append(ignores[-1])
        elif part == ")":
            ignores.pop()
        elif ignores[-1]:
            part = _in_either_case(part)
        written.append(part)
    return "".join(written)


def _part_at(pattern: str, place: int) -> str:
    """Return an escape, a class, the start of a group with flags, or else a character."""
    kind = _KINDS.get(pattern[place])
    found = None if kind is None else kind.match(pattern, place)
    return pattern[place] if found is None else found[0]


def _in_either_case(part: str) -> str:
    if part[0] == "[":
        return "".join(_both_cases(found) for found in _IN_CLASS.finditer(part))
    lower, upper = part.lower(), part.upper()
    is_letter = part.isalpha() and lower != upper and len(lower) == len(upper) == 1
    return f"[{lower}{upper}]" if is_letter else part


def _both_cases(found: re.Match[str]) -> str:
    """Return a part of a class, and beside it the other case of each letter that it stands for."""
    first, last = found.groups()
    if first is None:
        letters = "" if found[0][0] == "\\" else found[0]
    else:
        letters = "".join(map(chr, range(ord(first), ord(last) + 1)))
    others = (letter.swapcase() for letter in letters if letter.isalpha())
    return found[0] + "".join(other for other in others if len(other) == 1)
