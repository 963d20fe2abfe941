"""The drill's knobs: frozen until it ends, changed between drills only."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import Field, ValidationError, model_validator

from orphanwatch.exporter.config_values import PositiveDuration, Strict
from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.instants import SECOND, Micros, micros, seconds

PAID_TASKS: Final = 2
"""How many tasks are in the paid pool, whatever the number of all."""

_FEWEST_TASKS: Final = PAID_TASKS + 2  # one whose client leaves, and its retry
_MOST_TASKS: Final = 1000
_DIGITS: Final = 12
_BEYOND_SLACK: Final = micros(0.5)


class Knobs(Strict):
    """What a drill is made of (contract, section 8). Lengths of time are microseconds inside."""

    tasks: Annotated[int, Field(ge=_FEWEST_TASKS, le=_MOST_TASKS)] = 8
    """All attempts together: two of the paid pool, the rest overflow, its last one the retry."""
    deadline: PositiveDuration = micros(12)
    prompt_tokens: Annotated[int, Field(ge=0)] = 800
    cancel_at: PositiveDuration = micros(3.5)
    retry_after: PositiveDuration = micros(0.5)
    """How long after it left the client of the first cancelled task asks again."""
    heartbeat: PositiveDuration = micros(4)
    """Of overflow workers."""
    slow_heartbeat: PositiveDuration | None = None
    """Of overflow workers whose heartbeat is the broken hop; None is just beyond the slack."""
    paid_lease_cap: Annotated[int, Field(ge=1)] = 2
    tokens_per_second: Annotated[int, Field(ge=1)] = 40
    answer_tokens: Annotated[int, Field(ge=1)] = 400
    """Of a task whose client stays."""
    grace_seconds: PositiveDuration = micros(1)
    """The config's own holds, and has to be the same where a drill file says one."""

    @model_validator(mode="after")
    def _leave_room(self) -> "Knobs":
        if self.cancel_at + 2 * self.grace_seconds >= self.deadline:
            raise ValueError(
                "cancel_at and two graces reach the deadline: nothing could be told apart; "
                "raise deadline, or lower cancel_at"
            )
        if self.slowest_heartbeat <= self.slack:
            raise ValueError(
                "slow_heartbeat fits into the slack that is left at the cancel; "
                "raise it above deadline less cancel_at"
            )
        return self

    @property
    def slack(self) -> Micros:
        """What is left to the deadline when the clients leave."""
        return Micros(self.deadline - self.cancel_at)

    @property
    def slowest_heartbeat(self) -> Micros:
        """The heartbeat that is too slow for a cancel to be heard in time."""
        return self.slow_heartbeat or Micros(self.slack + _BEYOND_SLACK)

    def with_grace(self, grace: Micros) -> "Knobs":
        """Return the same knobs with another grace; raises ``ValueError`` for one without room."""
        return Knobs.model_validate({**self.as_written(), "grace_seconds": seconds(grace)})

    @property
    def length(self) -> Micros:
        """How long a drill lasts: until deadline and retry are through, and two graces more."""
        answer = self.answer_tokens * SECOND // self.tokens_per_second
        last = max(self.deadline, self.cancel_at + self.retry_after + answer)
        return Micros(last + 2 * self.grace_seconds)

    @property
    def digest(self) -> str:
        """A short fingerprint: two drills with the same one had the same knobs."""
        text = json.dumps(self.as_written(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def as_written(self) -> dict[str, float]:
        """Return every knob under its name; lengths of time in seconds."""
        resolved = {**self.model_dump(), "slow_heartbeat": self.slowest_heartbeat}
        return {
            name: seconds(value) if name in _LENGTHS else value for name, value in resolved.items()
        }


_LENGTHS: Final = frozenset(
    {"deadline", "cancel_at", "retry_after", "heartbeat", "slow_heartbeat", "grace_seconds"}
)


def load_knobs(path: Path) -> Knobs:
    """Return the knobs of a drill file; raises ``ConfigError`` naming every wrong key."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), (f"can't be read: {error.strerror}",)) from error
    except (UnicodeDecodeError, yaml.YAMLError):
        raise ConfigError(str(path), ("is not YAML",)) from None
    if not isinstance(document, dict):
        raise ConfigError(str(path), ("is no mapping; write for example tasks: 8",))
    try:
        return Knobs.model_validate(document)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        raise ConfigError(
            str(path),
            tuple(
                f"{'.'.join(map(str, problem['loc'])) or 'knobs'}: "
                f"{problem['msg'].removeprefix('Value error, ')}"
                for problem in problems
            ),
        ) from None
