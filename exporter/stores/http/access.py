"""Places asked over HTTP: bounded in time and size, and no secret is ever in an error.

Whatever goes wrong becomes a ``StoreError`` that names the place by host and port, never by URL.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from orphanwatch.exporter.config_source import HttpAccess
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Micros, seconds
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.http.problems import (
    ElsewhereError,
    OverlongError,
    place_of,
    problem_of,
    refusal_of,
    trusted_certificates,
)
from orphanwatch.exporter.version import VERSION

LARGEST_ANSWER: Final = 32 * 1024 * 1024
"""Bytes of an answer, unpacked; a longer one is none that we ask for."""

_PORTION: Final = 64 * 1024
_MOST_REDIRECTS: Final = 3


class Answer(NamedTuple):
    """What a place answered, with a status that means success."""

    body: bytes
    content_type: str
    """The media type in lower case, without parameters; empty where the place does not say."""


class HttpPlace:
    """What one store asks over HTTP, in its lane, a question at a time.

    Redirects are followed within one origin only: credentials go nowhere else. Proxies, ``.netrc``
    and the like of the environment are not consulted. Nothing is retried, and no connection is
    kept between readings: servers drop idle ones just when a reading wants to use them again.
    """

    def __init__(self, store: StoreName, access: HttpAccess, timeout: Micros) -> None:
        self._store = store
        self._access = access
        self._timeout = timeout
        self._adapter = _BoundedAdapter(seconds(timeout))
        self.session: requests.Session = _session(access, self._adapter)
        """For a library that asks by itself: within ``telling``, and bounded likewise."""

    def begin(self) -> None:
        """Let time run: all that is asked until the next beginning shares one timeout."""
        self._adapter.begin()

    def get(self, url: str, *, accept: str = "*/*") -> Answer:
        """Return what a place answers to a GET; raises ``StoreError`` for anything else."""
        with self.telling(url):
            response = self.session.get(url, headers={"Accept": accept})
        if not response.ok:
            raise self.refusal(url, response.status_code)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Answer(response.content, kind)

    @contextmanager
    def telling(self, url: str) -> Iterator[None]:
        """Turn whatever goes wrong on the way to a place and back into a ``StoreError``."""
        try:
            yield
        # OSError: a certificate's file; ValueError: a header or an answer that is no text.
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            # Not "from error", whose text holds the URL and may hold a header.
            raise StoreError(
                self._store, problem_of(error, place_of(url), self._access, self._timeout)
            ) from None

    def refusal(self, url: str, status: int) -> StoreError:
        """Return the error for a status that is none of success."""
        return StoreError(self._store, refusal_of(status, place_of(url), self._access))

    @property
    def newest(self) -> requests.Response | None:
        """The newest answer, whatever its status, for what a library does not hand on."""
        return self._adapter.newest

    def clock_skew_seconds(self) -> float | None:
        """Return the clock of the newest answer less ours; None where it did not tell.

        HTTP tells the time in whole seconds: what may be less than one is 0.
        """
        return self._adapter.skew

    def close(self) -> None:
        """Let go of the connections; the next question makes new ones."""
        self.session.close()


class _BoundedAdapter(HTTPAdapter):
    """Reads each answer to its end, within what is left of the time and of the size."""

    def __init__(self, timeout: float) -> None:
        super().__init__(max_retries=0)
        self.newest: requests.Response | None = None
        self.skew: float | None = None
        self._longest = timeout
        self._end: float | None = None

    def begin(self) -> None:
        self._end = time.monotonic() + self._longest

    def send(  # noqa: PLR0917  (the signature is requests')
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002  (likewise)
        timeout: Any = None,  # noqa: ARG002  (likewise; our own holds)
        verify: bool | str = True,  # noqa: FBT001, FBT002  (likewise)
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        started = time.monotonic()
        end = started + self._longest if self._end is None else self._end
        if started >= end:
            raise requests.Timeout
        response = super().send(
            request,
            stream=True,
            timeout=urllib3.Timeout(total=end - started),  # type: ignore[arg-type]  # documented
            verify=verify,
            cert=cert,
            proxies=proxies,
        )
        self.skew = _skew(response.headers.get("Date"))
        # What requests reads from, without bounds, is then at hand already.
        response.raw = BytesIO(_body(response.raw, end))
        self.newest = response
        return response


def _body(raw: urllib3.HTTPResponse, end: float) -> bytes:
    """Return the whole body, unpacked; each portion may take no longer than all of it."""
    portions, size = [], 0
    try:
        while portion := raw.read1(_PORTION, decode_content=True):
            size += len(portion)
            if size > LARGEST_ANSWER:
                raise OverlongError
            if time.monotonic() > end:
                raise requests.Timeout
            portions.append(portion)
    finally:
        raw.close()
    return b"".join(portions)


def _skew(date: str | None) -> float | None:
    if date is None:
        return None
    try:
        told = parsedate_to_datetime(date)
    except ValueError:
        return None
    aware = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    # The time was cut to whole seconds: on the average it is half a second later than told.
    skew = (aware - datetime.now(UTC)).total_seconds() + 0.5
    return skew if abs(skew) >= 1 else 0.0


class _Session(requests.Session):
    """One adapter for every address, and redirects that stay where they began."""

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__()
        self._adapter = adapter

    def get_adapter(self, url: str | bytes) -> HTTPAdapter:  # noqa: ARG002  (whatever it is)
        # A library may mount an adapter of its own, which would retry and wait as it likes.
        return self._adapter

    def close(self) -> None:
        super().close()
        self._adapter.close()

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target: str | None = super().get_redirect_target(resp)
        if target is not None and _origin(urljoin(resp.url, target)) != _origin(resp.url):
            raise ElsewhereError
        return target


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _session(access: HttpAccess, adapter: HTTPAdapter) -> requests.Session:
    session = _Session(adapter)
    session.trust_env = False
    session.max_redirects = _MOST_REDIRECTS
    session.headers.update({"User-Agent": f"orphanwatch/{VERSION}", "Accept-Encoding": "gzip"})
    session.headers.update(
        {name: value.get_secret_value().encode() for name, value in access.headers.items()}
    )
    if access.token is not None:
        session.headers["Authorization"] = b"Bearer " + access.token.get_secret_value().encode()
    if access.username is not None and access.password is not None:
        # As bytes: what is not Latin-1 could not be sent as text.
        session.auth = HTTPBasicAuth(
            access.username.encode(), access.password.get_secret_value().encode()
        )
    if access.cert_file is not None:
        # The key may be in the same file.
        session.cert = (access.cert_file, access.key_file or access.cert_file)
    session.verify = trusted_certificates(access)
    if access.insecure_skip_verify:
        # Its owner has said so in the config: no word about it with every request.
        urllib3.disable_warnings(InsecureRequestWarning)
    return session
