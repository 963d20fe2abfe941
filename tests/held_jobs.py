"""Jobs for the real workers of the queues under test: each runs until the test lets it go."""

from redis import Redis

_LONGEST_SECONDS = 60


def hold(url: str, name: str) -> str:
    """Return once ``let_go`` was called with the same name; a minute is the longest."""
    with Redis.from_url(url, socket_timeout=None) as redis:
        redis.blpop([f"let-go:{name}"], timeout=_LONGEST_SECONDS)
    return f"{name} was held"


def fail(name: str) -> None:
    """Fail."""
    raise RuntimeError(name)


def let_go(url: str, name: str) -> None:
    """Let the job of this name end."""
    with Redis.from_url(url) as redis:
        redis.rpush(f"let-go:{name}", "now")
