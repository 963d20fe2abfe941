"""Numbers and stamps written as text, read by PostgreSQL without ever raising.

A cast of a text that does not spell what it is cast to ends the statement, and with it the sight
of all other rows; PostgreSQL can be asked beforehand only from version 16 on. So a pattern takes
a text apart, and only parts that are known to be whole numbers in range are computed with.
"""

from string import Template
from typing import Any, Final

from sqlalchemy import BigInteger, Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

# Longer numbers, or larger exponents, are none of tokens and no instants; these fit a double.
_NUMBER: Final = r"^[+-]?[0-9]{1,40}([.][0-9]{1,40})?([eE][+-]?[0-9]{1,2})?\Z"

_ISO: Final = (
    r"^[0-9]{4}-?[0-9]{2}-?[0-9]{2}"
    r"([Tt ][0-9]{2}(:?[0-9]{2}(:?[0-9]{2}([.,][0-9]+)?)?)?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)?)?\Z"
)


class NumberOfText(FunctionElement[float]):
    """The number that a text spells: null where it is blank, NaN where it spells none."""

    type = Double()
    inherit_cache = True


class InstantOfText(FunctionElement[int]):
    """The microseconds of a text that is a stamp or an epoch number, null where it is neither.

    The second argument is the offset of wall time without a zone, as SQL about ``wall``.
    """

    type = BigInteger()
    inherit_cache = True


# CASE is evaluated from left to right: each condition guards what comes after it. OFFSET 0 keeps
# the planner from working a part out anew wherever it is used.

_NUMBER_OF_TEXT: Final = Template(r"""(
SELECT CASE
  WHEN t = '' THEN NULL
  WHEN t !~ '$number' THEN CAST('NaN' AS float8)
  ELSE CAST(CAST(t AS numeric) AS float8)
END
FROM (SELECT btrim($text, E' \t\n\r\f\x0b') AS t) AS trimmed
)""")

# The pattern only says that a text is a stamp: to let it cut one up takes seven times as long.
_INSTANT_OF_TEXT: Final = Template(r"""(
SELECT CASE
  WHEN t ~ '$iso' AND t !~ '^[0-9]{8}\Z' THEN (
    SELECT wall - CASE WHEN zone IS NULL THEN $offset ELSE east END
    FROM (
      SELECT zone,
        CASE left(zone, 1) WHEN '-' THEN -60000000 ELSE 60000000 END * (zh * 60 + zm) AS east,
        (
          make_date(y, mon, CASE WHEN d BETWEEN 1 AND
            EXTRACT(day FROM make_date(y, mon, 1) + interval '1 month - 1 day') THEN d END)
          - DATE '1970-01-01'
        ) * bigint '86400000000' + ((h * 60 + m) * 60 + s) * bigint '1000000' + f AS wall
      FROM (
        SELECT zone,
          nullif(CAST(substr(t, 1, 4) AS int), 0) AS y,
          CASE WHEN substr(day, 1, 2) BETWEEN '01' AND '12'
            THEN CAST(substr(day, 1, 2) AS int) END AS mon,
          CAST(substr(day, 3, 2) AS int) AS d,
          CAST(substr(clock, 1, 2) AS int) AS h,
          CAST(substr(clock, 3, 2) AS int) AS m,
          CAST(substr(clock, 5, 2) AS int) AS s,
          CAST(substr(clock, 8, 6) AS bigint) AS f,
          CAST(rpad(substr(zone, 2, 2), 2, '0') AS bigint) AS zh,
          CAST(rpad(substr(replace(zone, ':', ''), 4, 2), 2, '0') AS bigint) AS zm
        FROM (
          SELECT replace(substr(t, 5, 6), '-', '') AS day, zone,
            replace(left(time, length(time) - length(coalesce(zone, ''))), ':', '') || '000000000'
              AS clock
          FROM (
            SELECT time, substring(time from '[Zz+-].*') AS zone
            FROM (SELECT substr(t, CASE substr(t, 5, 1) WHEN '-' THEN 12 ELSE 10 END) AS time)
              AS rest
            OFFSET 0
          ) AS split
          OFFSET 0
        ) AS cut
        OFFSET 0
      ) AS parts
      WHERE m < 60 AND s < 60 AND (h < 24 OR (h = 24 AND m + s + f = 0))
        AND coalesce(zh, 0) < 24 AND coalesce(zm, 0) < 60
    ) AS read
  )
  WHEN t ~ '$number' THEN (
    SELECT CASE
      WHEN abs(n) < 1e11 THEN CAST(round(n * 1000000) AS bigint)
      WHEN abs(n) < 1e14 THEN CAST(round(n * 1000) AS bigint)
      WHEN abs(n) < 1e17 THEN CAST(round(n) AS bigint)
      WHEN abs(n) <= 1e20 THEN CAST(round(n / 1000) AS bigint)
    END
    FROM (SELECT CAST(t AS numeric) AS n) AS numbers
  )
END
FROM (SELECT btrim($text, E' \t\n\r\f\x0b') AS t) AS trimmed
)""")


@compiles(NumberOfText, "postgresql")
def _compile_number(element: NumberOfText, compiler: Any, **context: Any) -> str:
    (text,) = (compiler.process(clause, **context) for clause in element.clauses)
    return _NUMBER_OF_TEXT.substitute(text=text, number=_NUMBER)


@compiles(InstantOfText, "postgresql")
def _compile_instant(element: InstantOfText, compiler: Any, **context: Any) -> str:
    text, offset = (compiler.process(clause, **context) for clause in element.clauses)
    return _INSTANT_OF_TEXT.substitute(text=text, offset=offset, number=_NUMBER, iso=_ISO)
