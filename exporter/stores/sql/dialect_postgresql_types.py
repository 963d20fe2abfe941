"""The types of PostgreSQL's columns, as far as it matters to tell them apart."""

from typing import Any, Final

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Boolean,
    Date,
    Double,
    LargeBinary,
    Numeric,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine, UserDefinedType


class Char(UserDefinedType[str]):
    """Text of a fixed length: the blanks at its end mean nothing."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name."""
        return "bpchar"


TYPES: Final[dict[int, TypeEngine[Any]]] = {
    16: Boolean(),
    17: LargeBinary(),
    20: BigInteger(),
    21: BigInteger(),
    23: BigInteger(),
    25: Text(),
    114: JSONB(),
    700: Double(),
    701: Double(),
    1042: Char(),
    1043: Text(),
    1082: Date(),
    1114: TIMESTAMP(timezone=False),
    1184: TIMESTAMP(timezone=True),
    1700: Numeric(),
    2950: Uuid(),
    3802: JSONB(),
}
"""By the type's number, as ``pg_type`` lists them; all others are read as the text they show."""
