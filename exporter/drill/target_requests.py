"""What a drill sends to a real gateway, and the caps that nothing it sends can pass."""

import json
import threading
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from orphanwatch.exporter.config_drill import DrillTarget
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.run_id import new_run
from orphanwatch.exporter.drill.target_fixture import fixture_tokens, prompt_of, tokens_of
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Micros, seconds
from orphanwatch.exporter.stores.http.problems import place_of
from orphanwatch.exporter.version import VERSION

_HIDDEN: Final = "<hidden>"

TARGET_PREFIX: Final = "orphanwatch-target-"
"""What the ids that are sent begin with: rows of them are the gateway's, no drill's to delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One attempt at a request."""

    task_id: str
    retry_id: str
    attempt: int
    leaves: bool
    """Whether its client leaves; the other one reads the answer to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """Everything that one drill may send, decided before the start."""

    target: DrillTarget
    knobs: Knobs
    asks: tuple[Ask, ...]
    """Those that leave, and last the one retry, of the first of them."""
    prompt: str
    prompt_tokens: int

    @property
    def place(self) -> str:
        """The gateway's host and port."""
        return place_of(self.target.url)

    @property
    def tokens_each(self) -> int:
        """The most that one request may cost, its prompt included."""
        return self.prompt_tokens + self.knobs.answer_tokens

    @property
    def body(self) -> bytes:
        """What each request asks, as JSON."""
        return json.dumps(body_of(self, self.prompt)).encode()


def plan_of(target: DrillTarget, knobs: Knobs) -> TargetPlan:
    """Return the plan of one drill; raises ``DrillError`` where it would pass a cap."""
    run = f"{TARGET_PREFIX}{new_run()}-"
    asks = [
        Ask(task_id=f"{run}{n}", retry_id=f"{run}request-{n}", attempt=1, leaves=True)
        for n in range(1, target.clients + 1)
    ]
    retry = Ask(
        task_id=f"{run}{target.clients + 1}", retry_id=asks[0].retry_id, attempt=2, leaves=False
    )
    own = target.prompt
    prompt = prompt_of(knobs.prompt_tokens) if own is None else own
    plan = TargetPlan(
        target=target,
        knobs=knobs,
        asks=(*asks, retry),
        prompt=prompt,
        prompt_tokens=fixture_tokens(knobs.prompt_tokens) if own is None else tokens_of(own),
    )
    _refuse_beyond_caps(plan)
    return plan


def _refuse_beyond_caps(plan: TargetPlan) -> None:
    requests, target = len(plan.asks), plan.target
    if requests > target.most_requests:
        raise DrillError(
            f"drill.targets: clients {target.clients} and one retry are {requests} requests, and "
            f"most_requests is {target.most_requests}; lower clients, or raise most_requests"
        )
    tokens = requests * plan.tokens_each
    if tokens > target.most_tokens:
        raise DrillError(
            f"drill.targets: {requests} requests of {plan.prompt_tokens} prompt tokens and "
            f"{plan.knobs.answer_tokens} answer tokens are up to {tokens}, and most_tokens is "
            f"{target.most_tokens}; lower clients, or answer_tokens in a --drill.file, or raise "
            "most_tokens"
        )


class Budget:
    """The caps of one drill: asked before each request, whoever sends it."""

    def __init__(self, target: DrillTarget) -> None:
        self._requests = target.most_requests
        self._tokens = target.most_tokens
        self._lock = threading.Lock()

    def take(self, tokens: int) -> None:
        """Count one request; raises ``DrillError`` where it would pass a cap."""
        with self._lock:
            if self._requests < 1 or self._tokens < tokens:
                raise DrillError("drill.targets: most_requests or most_tokens is reached")
            self._requests -= 1
            self._tokens -= tokens


def body_of(plan: TargetPlan, prompt: str) -> dict[str, Any]:
    """Return what a request asks, with a prompt."""
    document: dict[str, Any] = {
        "model": plan.target.model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        plan.target.max_tokens_key: plan.knobs.answer_tokens,
    }
    return {**document, "ignore_eos": True} if plan.target.ignore_eos else document


def headers_of(target: DrillTarget, ask: Ask) -> dict[str, bytes]:
    """Return the headers of a request, credentials among them."""
    headers = {
        "Content-Type": b"application/json",
        "Accept": b"text/event-stream",
        "User-Agent": f"orphanwatch/{VERSION}".encode(),
        target.id_header: ask.task_id.encode(),
        target.retry_header: ask.retry_id.encode(),
        target.attempt_header: str(ask.attempt).encode(),
    }
    headers |= {name: value.get_secret_value().encode() for name, value in target.headers.items()}
    if target.token is not None:
        headers["Authorization"] = b"Bearer " + target.token.get_secret_value().encode()
    if target.username is not None and target.password is not None:
        pair = f"{target.username}:{target.password.get_secret_value()}"
        headers["Authorization"] = b"Basic " + b64encode(pair.encode())
    return headers


def shown_headers(target: DrillTarget, ask: Ask) -> dict[str, str]:
    """Return the headers as they may be printed: whatever may be a credential is hidden."""
    secret = {"authorization", *(name.lower() for name in target.headers)}
    return {
        name: _HIDDEN if name.lower() in secret else value.decode()
        for name, value in headers_of(target, ask).items()
    }


def target_named(targets: Sequence[DrillTarget], url: str) -> DrillTarget:
    """Return the target of a URL; raises ``DrillError`` where the config does not name it."""
    for target in targets:
        if target.is_at(url):
            return target
    known = ", ".join(shown_address(target.url) for target in targets) or "none"
    raise DrillError(
        "--target: the config does not name this address, and requests are only sent to those "
        f"under drill.targets ({known}); add it there, with its caps"
    )


def shown_address(url: str) -> str:
    """Return a URL without what may be a credential in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{place_of(url)}{parts.path}"


def in_seconds(length: Micros) -> str:
    """Return a length of time as the docs write knobs: ``3.5s``."""
    return f"{seconds(length):g}s"
