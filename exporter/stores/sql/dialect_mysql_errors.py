"""What MariaDB, MySQL and PyMySQL say when something is wrong, without whom and where they ask."""

import re
from typing import Any, Final

from orphanwatch.exporter.stores.sql.dialect import Explained

_REFUSED: Final = Explained(
    "the server refuses the user or the password",
    "check both in the url; an @ in a password is written %40",
)
_NO_DATABASE: Final = Explained(
    "there is no such database, or the user may not use it", "check the name at the end of the url"
)
_TIMED_OUT: Final = Explained(
    "the server ended the query",
    "the query ran past the store's timeout; look for a missing index with check",
)
_LOCKED: Final = Explained(
    "waited for a lock in vain",
    "another session holds it; see SHOW PROCESSLIST, or raise the store's timeout",
)
_FORBIDDEN: Final = Explained(
    "the user may not read it", "let the user: GRANT SELECT on what relation: reads"
)
_LOST: Final = Explained("the connection was lost", "check that the server runs")

_MEANT: Final[dict[int, Explained]] = {
    1040: Explained("the server has no connection left", "close some, or raise its limit"),
    1044: _NO_DATABASE,
    1045: _REFUSED,
    1049: _NO_DATABASE,
    1053: Explained("the server is stopping", "wait until it is up"),
    1130: Explained("the server lets nobody in from here", "allow the user this host"),
    1142: _FORBIDDEN,
    1143: _FORBIDDEN,
    1205: _LOCKED,
    1317: Explained("someone ended the query", "see who"),
    1370: Explained(
        "the user may not call a function of it", "let the user: GRANT EXECUTE on the function"
    ),
    1698: _REFUSED,
    1792: Explained("it would write", "relation: must not write"),
    1927: Explained("the server ended the session", "see who, or whether it restarts"),
    1969: _TIMED_OUT,
    2003: Explained("nobody answers", "check that the server runs, and host and port in the url"),
    2006: _LOST,
    2013: _LOST,
    3024: _TIMED_OUT,
}
"""By the error's number, where its words tell users, hosts or databases, or tell too little."""

_REMEDIES: Final[dict[int, str]] = {
    1054: "check the columns in the SELECT of relation:",
    1064: "check the SELECT of relation:",
    1146: "check relation: in the config",
}

_TABLE: Final = re.compile(r"'[^'.]*\.([^']*)'")
_SOMEBODY: Final = re.compile(r"'[^']*'@'[^']*'")


def explain(error: Exception) -> Explained | None:
    """Return what an error of PyMySQL means, None where nothing more than its words is known."""
    original: Any = getattr(error, "orig", error)
    number, said = (*original.args, "", "")[:2]
    if isinstance(number, int) and number in _MEANT:
        return _MEANT[number]
    if not isinstance(number, int) or not said:
        return _LOST
    words = _SOMEBODY.sub("the user", _TABLE.sub(r"'\1'", str(said)))
    return Explained(words, _REMEDIES.get(number, "check the store"))
