"""What clients ask for."""

from dataclasses import dataclass

from orphanwatch.exporter.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt at what a client wants. ``leaves_at`` is None for a client that stays."""

    task_id: str
    retry_id: str
    """Empty where the id got lost on the way."""
    attempt: int
    pool: str
    submitted_at: Instant
    deadline_at: Instant
    leaves_at: Instant | None
    tokens: int
    """What the whole answer takes."""
    prompt_tokens: int = 0
    """What reading the prompt takes, at once when a worker begins."""
    decoders: int = 1
    """How many workers decode it: more than one is a fault."""
