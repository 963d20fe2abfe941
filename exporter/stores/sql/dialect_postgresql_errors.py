"""What PostgreSQL and psycopg say when something is wrong, without whom and where they ask."""

from typing import Any, Final

from orphanwatch.exporter.stores.sql.dialect import Explained

# Of a connection that failed psycopg tells host, user and database: only what matches is said.
_CONNECTING: Final = (
    (
        ("password authentication failed", "no password supplied", "authentication failed"),
        Explained(
            "the server refuses the user or the password",
            "check both in the url; an @ in a password is written %40",
        ),
    ),
    (
        ("pg_hba.conf", "not permitted to log in"),
        Explained(
            "the server lets this user not in from here", "allow it in pg_hba.conf, or its LOGIN"
        ),
    ),
    (
        ('role "',),
        Explained("the server does not know the user", "check the user in the url"),
    ),
    (
        ('database "',),
        Explained("there is no such database", "check the name at the end of the url"),
    ),
    (
        ("too many", "remaining connection slots"),
        Explained("the server has no connection left", "close some, or raise its limit"),
    ),
    (
        ("starting up", "shutting down", "in recovery mode"),
        Explained("the server is starting or stopping", "wait until it is up"),
    ),
    (
        ("refused", "No such file or directory"),
        Explained(
            "nobody answers: connection refused",
            "check that the server runs, and host and port in the url",
        ),
    ),
    (
        ("resolve", "translate host name", "not known"),
        Explained(
            "the name of its host is not known",
            "check the host in the url; an @ in a password is written %40",
        ),
    ),
    (
        ("timeout", "timed out", "No route", "unreachable"),
        Explained("the server can't be reached", "check host and port in the url, and firewalls"),
    ),
    (
        ("certificate", "SSL", "ssl"),
        Explained("encryption could not be agreed upon", "check sslmode in the url"),
    ),
    (
        ("invalid connection option", "invalid"),
        Explained("an option of the url is not known", "check what follows the ? in the url"),
    ),
)

_REMEDIES: Final = {
    "42P01": "check relation: in the config; a name with capitals is written as it is",
    "3F000": "check the schema in relation:",
    "42501": "let the user read it: GRANT SELECT on what relation: reads, USAGE on its schema",
    "55P03": "another session holds a lock on it; see pg_locks, or raise the store's timeout",
    "25006": "relation: must not write",
    "42601": "check the SELECT of relation:",
    "42703": "check the columns in the SELECT of relation:",
    "2201B": (
        "write strip_prefix and strip_suffix with what PostgreSQL's regular expressions know"
    ),
    "40001": "the standby took rows away that were read; raise max_standby_streaming_delay",
    "57P01": "the server is stopping, or someone ended the session; wait until it is up",
    "57P02": "the server is stopping, or someone ended the session; wait until it is up",
    "57P03": "wait until the server is up",
    "53300": "close some connections, or raise the server's limit",
}
"""By SQLSTATE."""

_CANCELLED: Final = "57014"
_TIMED_OUT: Final = "the query ran past the store's timeout; look for a missing index with check"


def explain(error: Exception) -> Explained | None:
    """Return what an error of psycopg means, None where nothing more than its kind is known."""
    original: Any = getattr(error, "orig", error)
    state = getattr(original, "sqlstate", None)
    said = getattr(getattr(original, "diag", None), "message_primary", None)
    if state is not None and said:
        return Explained(said, _remedy(state, said))
    words = str(original)
    found = (meant for signs, meant in _CONNECTING if any(sign in words for sign in signs))
    lost = Explained("the connection was lost", "check that the server runs")
    return next(found, lost)


def _remedy(state: str, said: str) -> str:
    if state == _CANCELLED:
        return _TIMED_OUT if "timeout" in said else "someone cancelled the query; see who"
    return _REMEDIES.get(state, "check the store")
