"""Text on MariaDB and MySQL: exact comparison, and numbers and stamps that are written as text.

No cast raises there: what can't be cast is null, with a warning that nobody reads. But a text is
also taken for what it begins with, so a pattern says first what it is.
"""

from string import Template
from typing import Any, Final

from sqlalchemy import BigInteger, Double, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import JSON, UserDefinedType

_NUMBER: Final = r"^[+-]?[0-9]{1,40}([.][0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$"

_ISO: Final = (
    r"^(?!0000)[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"
    r"([Tt ](24(:?00){0,2}([.,]0+)?|([01][0-9]|2[0-3])(:?[0-5][0-9](:?[0-5][0-9]([.,][0-9]+)?)?)?)"
    r"([Zz]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?$"
)


class Bit(UserDefinedType[bytes]):
    """A column of bits, which stands for a number."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name."""
        return "BIT"


class ExactText(FunctionElement[str]):
    """A cell as text that is equal only to what is written with the same characters."""

    type = Text()
    inherit_cache = True


class NumberOfText(FunctionElement[float]):
    """The number that a text spells: null where it is blank, the second argument if it is none."""

    type = Double()
    inherit_cache = True


class InstantOfText(FunctionElement[int]):
    """The microseconds of a text that is a stamp or an epoch number, null where it is neither.

    The second argument is the offset of wall time without a zone, as SQL about ``digits``, the
    fourteen of a stamp.
    """

    type = BigInteger()
    inherit_cache = True


def exact_collation(*, is_mariadb: bool) -> str:
    """Return the collation that compares characters, blanks at the end included."""
    return "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"


_NUMBER_OF_TEXT: Final = Template(
    "(CASE WHEN $text IS NULL OR TRIM($text) = '' THEN NULL"
    " WHEN TRIM($text) REGEXP '$number' THEN TRIM($text) + 0e0 ELSE $none END)"
)

# No select within can see the row, so every part is spelled out where it is used.
_INSTANT_OF_TEXT: Final = Template("""(CASE
  WHEN $t REGEXP '$iso' AND $t NOT REGEXP '^[0-9]{8}$$' THEN
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CAST($day AS DATE))
    + CAST(SUBSTRING($hms, 1, 2) AS SIGNED) * 3600000000
    + CAST(SUBSTRING($hms, 3, 2) AS SIGNED) * 60000000
    + CAST(SUBSTRING($hms, 5, 2) AS SIGNED) * 1000000
    + CAST(RPAD(SUBSTRING($clock, 8, 6), 6, '0') AS SIGNED)
    - (CASE
      WHEN $time NOT REGEXP '[Zz+-]' THEN $offset
      WHEN $time NOT REGEXP '[+-]' THEN 0
      ELSE IF(LOCATE('-', $time), -60000000, 60000000) * (
        CAST(SUBSTRING($zone, 2, 2) AS SIGNED) * 60
        + CAST(CONCAT('0', SUBSTRING($zone, 4, 2)) AS SIGNED))
    END)
  WHEN $t REGEXP '$number' THEN (CASE
    WHEN ABS($t + 0e0) < 1e11 THEN CAST(ROUND(($t + 0e0) * 1000000) AS SIGNED)
    WHEN ABS($t + 0e0) < 1e14 THEN CAST(ROUND(($t + 0e0) * 1000) AS SIGNED)
    WHEN ABS($t + 0e0) < 1e17 THEN CAST(ROUND(CAST($t AS DECIMAL(40, 12))) AS SIGNED)
    WHEN ABS($t + 0e0) <= 1e20 THEN CAST(ROUND(CAST($t AS DECIMAL(40, 12)) / 1000) AS SIGNED)
  END)
END)""")


@compiles(ExactText, "mysql")
def _compile_exact(element: ExactText, compiler: Any, **context: Any) -> str:
    (cell,) = element.clauses
    shown: str = compiler.process(cell, **context)
    if isinstance(cell.type, Bit):
        shown = f"({shown} + 0)"
    elif isinstance(cell.type, JSON):
        shown = f"JSON_UNQUOTE({shown})"
    collation = exact_collation(is_mariadb=compiler.dialect.is_mariadb)
    return f"(CONVERT({shown} USING utf8mb4) COLLATE {collation})"


@compiles(NumberOfText, "mysql")
def _compile_number(element: NumberOfText, compiler: Any, **context: Any) -> str:
    text, none = (compiler.process(clause, **context) for clause in element.clauses)
    return _NUMBER_OF_TEXT.substitute(text=text, none=none, number=_NUMBER)


@compiles(InstantOfText, "mysql")
def _compile_instant(element: InstantOfText, compiler: Any, **context: Any) -> str:
    text, offset = (compiler.process(clause, **context) for clause in element.clauses)
    t = f"TRIM({text})"
    day = f"LEFT(REPLACE(LEFT({t}, 10), '-', ''), 8)"
    time = f"SUBSTRING({t}, IF(SUBSTRING({t}, 5, 1) = '-', 12, 10))"
    clock = f"REPLACE(REGEXP_REPLACE({time}, '[Zz+-].*', ''), ':', '')"
    hms = f"RPAD(LEFT({clock}, 6), 6, '0')"
    return _INSTANT_OF_TEXT.substitute(
        t=t,
        iso=_ISO,
        number=_NUMBER,
        time=time,
        clock=clock,
        day=day,
        hms=hms,
        zone=f"REPLACE(REGEXP_SUBSTR({time}, '[+-].*'), ':', '')",
        offset=offset.replace("digits", f"CONCAT({day}, {hms})"),
    )
