"""Kinds of values that settings are made of: lengths of time, and models that refuse odd keys."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from orphanwatch.exporter.instants import LONGEST, Micros, micros, parse_duration, seconds


def _read_duration(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a duration such as 60s")  # noqa: TRY004  (pydantic wants it)
    if isinstance(value, int | float):
        if not abs(value) < seconds(LONGEST):
            raise ValueError("is longer than any window; write a duration such as 60s")
        return micros(value)
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ValueError:
        # Without the value, which may have come out of the environment.
        raise ValueError("is no duration; write for example 60s, 5m or 1h30m") from None


Duration = Annotated[Micros, BeforeValidator(_read_duration), Field(ge=0)]
"""A length of time: ``60s``, ``5m``; a bare number is seconds."""

PositiveDuration = Annotated[Micros, BeforeValidator(_read_duration), Field(gt=0)]


class Strict(BaseModel):
    """Frozen, and a key that it does not know is an error that shows no value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
