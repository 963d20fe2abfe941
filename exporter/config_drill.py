"""Real gateways that a drill may send requests to: each is named here, with its hard caps."""

from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from orphanwatch.exporter.config_source import HttpAccess, HttpUrl
from orphanwatch.exporter.config_values import PositiveDuration, Strict
from orphanwatch.exporter.instants import micros

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ENDPOINT: Final = "/chat/completions"
_OURS: Final = frozenset({"host", "content-length", "content-type", "accept", "authorization"})
_MOST_CLIENTS: Final = 100

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]


class DrillTarget(HttpAccess):
    """One OpenAI-compatible gateway, and how much may be asked of it in one drill."""

    url: HttpUrl
    """Its API's root, such as ``https://gateway/v1``."""
    model: str = Field(min_length=1)
    prompt: str | None = None
    """None is a neutral text of the drill's own."""
    id_header: HeaderName = "X-Request-Id"
    answer_id_header: HeaderName | None = None
    """Where the gateway says which id it has given a request."""
    retry_header: HeaderName = "X-Retry-Id"
    attempt_header: HeaderName = "X-Retry-Attempt"
    clients: Annotated[int, Field(ge=1, le=_MOST_CLIENTS)] = 2
    """How many ask at once, and leave; the first of them asks once more."""
    most_requests: Annotated[int, Field(ge=1)] = 4
    most_tokens: Annotated[int, Field(ge=1)] = 4000
    """Prompts and answers of all requests together."""
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    ignore_eos: bool = False
    """Asks vLLM or SGLang to decode up to the last token."""
    timeout: PositiveDuration = micros(10)
    """How long connecting may take."""
    settle: PositiveDuration = micros(5)
    """How long no token may be charged before they count as frozen."""

    @model_validator(mode="after")
    def _headers_differ(self) -> Self:
        ours = [self.id_header.lower(), self.retry_header.lower(), self.attempt_header.lower()]
        theirs = [name.lower() for name in self.headers]
        is_taken = _OURS.intersection(ours) or (_OURS - {"authorization"}).intersection(theirs)
        if is_taken or len({*ours, *theirs}) < len(ours) + len(theirs):
            raise ValueError(
                "id_header, retry_header, attempt_header and headers must all differ, and be none "
                "that every request has; rename one"
            )
        return self

    @property
    def path(self) -> str:
        """The path that requests are sent to, with the query that stands in the url."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix(_ENDPOINT) + _ENDPOINT
        return f"{path}?{parts.query}" if parts.query else path

    def is_at(self, url: str) -> bool:
        """Return whether a URL names this target, however its end and its host are written."""
        try:
            return _place(url) == _place(self.url)
        except ValueError:
            return False


def _place(url: str) -> tuple[str, str | None, int | None, str, str]:
    parts = urlsplit(url)
    if parts.username is not None:
        raise ValueError("holds credentials")
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    path = parts.path.rstrip("/").removesuffix(_ENDPOINT)
    return parts.scheme, parts.hostname, port, path, parts.query


class Drill(Strict):
    """What ``drill run --target`` may do."""

    targets: tuple[DrillTarget, ...] = ()

    @model_validator(mode="after")
    def _targets_differ(self) -> Self:
        for number, target in enumerate(self.targets):
            if any(other.is_at(target.url) for other in self.targets[:number]):
                raise ValueError("targets: two have the same url; keep one of them")
        return self
