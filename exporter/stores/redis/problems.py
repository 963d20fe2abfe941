"""What is wrong with a Redis server, in words that hold no secret and name the remedy."""

import re
import socket
import ssl
from typing import Final

from redis import exceptions

from orphanwatch.exporter.config_redis import RedisPlace

# Not its words, which may hold anything: only the code that a refusal begins with.
_CODE: Final = re.compile(r"[A-Z]{3,20}\b")

_BY_CODE: Final = {
    "MOVED": "is a node of a Redis Cluster, and the keys are on another one; name that node, "
    "or keep these keys in one hash slot of this one",
    "ASK": "is a node of a Redis Cluster, and the keys are moving to another one; try again later",
    "CLUSTERDOWN": "is a node of a Redis Cluster in which nobody serves the keys; mend the cluster",
    "WRONGTYPE": "keeps another kind of value at a key that is read whole; "
    "check key, prefix and the database number",
    "NOPERM": "does not let this user read what is needed; "
    "grant it +@read +@connection +time, ~* and, for Celery's events, +psubscribe &*",
    "MASTERDOWN": "is a replica without its master, and set not to answer; mend the replication",
    "NOAUTH": "wants a user or a password; give both in the URL, or username and password_file",
    "WRONGPASS": "does not take this user and password; check both, and whether the user is on",
    "LOADING": "is still loading its data; it answers once that is done",
}


def problem_of(error: Exception, place: RedisPlace) -> str:
    """Return what is wrong and what to do about it."""
    return f"the Redis at {place} {_said(error, place)}"


def code_of(error: Exception) -> str:
    """Return the code of a refusal such as ``WRONGTYPE``, an empty text where it has none."""
    found = _CODE.match(str(error))
    return found[0] if found else ""


# The driver takes the code off where it has a class for it.
_BY_CLASS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.AuthenticationError, "WRONGPASS"),
    (exceptions.AuthorizationError, "WRONGPASS"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
)


def _said(error: Exception, place: RedisPlace) -> str:
    for kind, code in _BY_CLASS:
        if isinstance(error, kind):
            return _BY_CODE[code]
    if isinstance(error, exceptions.TimeoutError):
        doubt = "whether it speaks TLS there, " if place.tls else ""
        return f"does not answer in time; see {doubt}what keeps it busy, or raise the timeout"
    if isinstance(error, exceptions.ConnectionError):
        return f"can't be reached: {_reason_of(error, place)}"
    if isinstance(error, exceptions.ResponseError):
        code = code_of(error)
        refusal = f"refuses to be read{f' ({code})' if code else ''}; is it Redis, and new enough?"
        return _BY_CODE.get(code, refusal)
    return "gives answers that can't be read; check host and port: is it Redis at all?"


def _reason_of(error: BaseException, place: RedisPlace) -> str:
    """Return why a connection failed, from what the system said of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message}); set ca_file"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as we do; check rediss:// and the port"
        if isinstance(cause, socket.gaierror):
            return "its name is not known; check the host in the URL"
        if isinstance(cause, ConnectionResetError | BrokenPipeError):
            break
        if isinstance(cause, FileNotFoundError | PermissionError) and place.tls:
            return f"{cause.strerror}; check the paths of ca_file, cert_file and key_file"
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}; check host and port, and that it runs"
        cause = cause.__cause__ or cause.__context__
    return "it closed the connection; check that it runs, and that it speaks TLS only if we do"
