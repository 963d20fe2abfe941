"""Patterns of Redis keys: which keys are meant, and which part of them is an id."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

CAPTURES: Final = ("task_id", "worker_id", "pool")
"""What braces may capture."""

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{(\w*)\}|\*|[{}]|[^{}*]+")
_GLOB_SPECIAL: Final = re.compile(r"[\\?\[\]*^]")


@dataclass(frozen=True)
class KeyPattern:
    """A pattern such as ``lease:{pool}:{task_id}``.

    Braces capture, as little as they can and at least one character; ``*`` is anything, and
    everything else stands for itself. ``{{`` and ``}}`` are braces that are meant.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> "KeyPattern":
        """Return the pattern; raises ``ValueError`` where its braces capture nothing we know."""
        seen = set()
        for token in _TOKEN.finditer(text):
            name = token[1]
            if token[0] in ("{", "}"):
                raise ValueError("has a lone brace; write {{ or }} where it is part of the key")
            if name is None:
                continue
            if name not in CAPTURES:
                known = ", ".join(f"{{{capture}}}" for capture in CAPTURES)
                raise ValueError(
                    f"captures something we don't know; {known} can be captured, and "
                    "{{ and }} are braces that are part of the key"
                )
            if name in seen:
                raise ValueError(f"captures {{{name}}} twice")
            seen.add(name)
        return cls(text)

    @classmethod
    def literal(cls, text: str) -> str:
        """Return the pattern text that means exactly ``text``, which must hold no ``*``."""
        return text.replace("{", "{{").replace("}", "}}")

    @cached_property
    def captures(self) -> tuple[str, ...]:
        """What the pattern captures, in its order."""
        return tuple(token[1] for token in _TOKEN.finditer(self.text) if token[1])

    @cached_property
    def glob(self) -> str:
        """The pattern for ``MATCH``: every key that the pattern means matches it."""
        return "".join(
            "*" if is_open else _GLOB_SPECIAL.sub(r"\\\g<0>", literal)
            for is_open, literal, _ in self._parts()
        )

    @cached_property
    def only_key(self) -> str | None:
        """The one key that the pattern means, None where it means many."""
        parts = list(self._parts())
        if any(is_open for is_open, _, _ in parts):
            return None
        return "".join(literal for _, literal, _ in parts)

    def read(self, keys: Iterable[str]) -> list[tuple[str, ...] | None]:
        """Return what each key's captures hold, None for a key that the pattern does not mean."""
        match = self._regex.fullmatch
        return [found.groups() if (found := match(key)) else None for key in keys]

    @cached_property
    def has_wildcard(self) -> bool:
        """Whether there is a ``*`` in it."""
        return any(is_open and name is None for is_open, _, name in self._parts())

    def filled(self, captures: Mapping[str, str], anything: str) -> str:
        """Return the key of these captures, with ``anything`` in the place of each ``*``."""
        return "".join(
            (captures[name] if name else anything) if is_open else literal
            for is_open, literal, name in self._parts()
        )

    def beginning(self, prefix: str) -> "KeyPattern":
        """Return the pattern of those keys of which the id begins with a prefix.

        It is the task's id, else the worker's, else whatever stands at the first ``*``; the
        pattern itself where a key holds none of them.
        """
        tokens = [token[0] for token in _TOKEN.finditer(self.text)]
        for wanted in ("{task_id}", "{worker_id}", "*"):
            if wanted in tokens:
                place = tokens.index(wanted)
                tokens[place] = f"{self.literal(prefix)}*"
                return KeyPattern("".join(tokens))
        return self

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(
            "".join(
                (r"(.+?)" if name else ".*?") if is_open else re.escape(literal)
                for is_open, literal, name in self._parts()
            ),
            re.DOTALL,
        )

    def _parts(self) -> Iterable[tuple[bool, str, str | None]]:
        """Yield (may be anything, the literal text otherwise, the name of its capture)."""
        for token in _TOKEN.finditer(self.text):
            if token[1] or token[0] == "*":
                yield True, "", token[1]
            else:
                yield False, {"{{": "{", "}}": "}"}.get(token[0], token[0]), None
