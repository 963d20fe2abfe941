"""What can go wrong over HTTP, in words: what it is, and the remedy; never a URL or a secret."""

import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from orphanwatch.exporter.config_source import HttpAccess
from orphanwatch.exporter.instants import Micros, format_duration


class ElsewhereError(requests.RequestException):
    """A redirect leads to another origin."""


class OverlongError(requests.RequestException):
    """An answer goes on beyond the largest that is read."""


def place_of(url: str) -> str:
    """Return the host and port of a URL, which may stand in an error."""
    return urlsplit(url).netloc.rpartition("@")[2]


def problem_of(error: Exception, place: str, access: HttpAccess, timeout: Micros) -> str:
    """Return what is wrong where no answer, or none that can be read, came from a place."""
    chain = tuple(_causes(error))
    if any(isinstance(cause, _TIMEOUTS) for cause in chain):
        return (
            f"no answer from {place} within {format_duration(timeout)}; "
            "see what blocks it, or raise the store's timeout"
        )
    if trouble := _file_problem(chain, access) or _tls_problem(chain, place, access):
        return trouble
    for kinds, words in _WORDS:
        if any(isinstance(cause, kinds) for cause in chain):
            return words.format(place=place)
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return f"{place} {_connection_problem(chain)}"
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
        return "the system's own certificates can't be read; write ca_file"
    return f"{place} can't be asked ({type(error).__name__}); check the url"


def refusal_of(status: int, place: str, access: HttpAccess) -> str:
    """Return what is wrong where a place answered with a status that is none of success."""
    phrase = f"{status} {_phrase(status)}".strip()
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        if access.has_credentials:
            return f"{place} refuses our credentials ({phrase}); check them, and what they may read"
        return (
            f"{place} wants credentials ({phrase}); write username and password_file, or token_file"
        )
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        return f"{place} has nothing at the url's path ({phrase}); check the path"
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return f"{place} has this switched off ({phrase}); switch it on, or check the url's path"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"{place} answers with an error of its own ({phrase}); see its log"
    return f"{place} does not answer the question ({phrase}); check the url"


def trusted_certificates(access: HttpAccess) -> bool | str:
    """Return whose word for a server is trusted: a file or folder, or what requests brings."""
    if access.insecure_skip_verify:
        return False
    if access.ca_file is not None:
        return access.ca_file
    system = ssl.get_default_verify_paths()
    folder = Path(system.capath) if system.capath is not None else None
    if system.cafile is not None:
        return system.cafile
    return str(folder) if folder is not None and any(folder.iterdir()) else True


def unreadable_of(access: HttpAccess) -> str:
    """Return which file of certificates or keys can't be read, and why; empty where all can."""
    named = {
        "ca_file": access.ca_file,
        "cert_file": access.cert_file,
        "key_file": access.key_file,
    }
    for key, path in named.items():
        if path is None or (key == "ca_file" and Path(path).is_dir()):
            continue
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            return f"{key} {path} can't be read ({error.strerror}); check the path and permissions"
    return ""


# Not urllib3's base of them, which a refused connection derives from too.
_TIMEOUTS: Final = (requests.Timeout, urllib3.exceptions.ReadTimeoutError, TimeoutError)

_Kinds = tuple[type[BaseException], ...]
_WORDS: Final[tuple[tuple[_Kinds, str], ...]] = (
    ((ElsewhereError,), "{place} redirects to another address; write the final one as url"),
    ((requests.TooManyRedirects,), "{place} redirects over and over; write the final url"),
    ((OverlongError,), "the answer of {place} is far too long; check the url's path"),
    (
        (urllib3.exceptions.DecodeError,),
        "the answer of {place} can't be unpacked; see what stands between us",
    ),
    (
        (requests.exceptions.InvalidHeader, UnicodeError),
        "a header for {place} can't be sent; look for line breaks in headers and token",
    ),
)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that led to it, however it is wrapped."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None)]
        waiting += cause.args


def _file_problem(chain: tuple[BaseException, ...], access: HttpAccess) -> str:
    """Return which file is at fault, where the error may come of one."""
    # Of requests itself, which tells a missing file from its own errors in no other way.
    is_bare = isinstance(chain[0], OSError) and not isinstance(chain[0], requests.RequestException)
    kinds = (ssl.SSLError, requests.exceptions.SSLError)
    is_tls = any(isinstance(cause, kinds) for cause in chain)
    return unreadable_of(access) if is_bare or is_tls else ""


def _tls_problem(chain: tuple[BaseException, ...], place: str, access: HttpAccess) -> str:
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message.rstrip(".")
            if "mismatch" in reason:
                remedy = "write the host in the url as the certificate names it"
            elif access.ca_file is None:
                remedy = "write the certificate that signs it as ca_file"
            else:
                remedy = "check that ca_file signs it"
            return f"the certificate of {place} is not trusted ({reason}); {remedy}"
    reasons = [str(cause.reason or "") for cause in chain if isinstance(cause, ssl.SSLError)]
    # Which of the two comes is a matter of who is faster.
    is_ended = any("CERTIFICATE_REQUIRED" in reason for reason in reasons) or any(
        isinstance(cause, ssl.SSLEOFError) for cause in chain
    )
    if is_ended and access.cert_file is None:
        return (
            f"{place} ends the TLS connection, as one does that asks for a certificate of ours; "
            "write cert_file and key_file"
        )
    if any("WRONG_VERSION" in reason or "HTTP_REQUEST" in reason for reason in reasons):
        return f"{place} speaks no TLS; write http:// in the url"
    if reasons or any(isinstance(c, requests.exceptions.SSLError) for c in chain):
        said = next(filter(None, reasons), "no reason given").lower().replace("_", " ")
        return f"no TLS with {place} ({said}); check ca_file, cert_file and key_file"
    return ""


def _connection_problem(chain: tuple[BaseException, ...]) -> str:
    if any(isinstance(cause, urllib3.exceptions.NameResolutionError) for cause in chain):
        return "is a host that can't be found; check the url"
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return "refuses the connection; check the url, and that it runs"
    for cause in chain:
        if isinstance(cause, OSError) and cause.strerror:
            return f"can't be reached ({cause.strerror}); check the url, and that it runs"
    return "breaks the answer off, or speaks no HTTP; check the url, and its log"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
