"""What ``check`` says of ids: whether the stores' ids join, and what would make them."""

import re
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

import yaml

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.findings import Finding, Level
from orphanwatch.exporter.id_advice import Advice, Merged, Pair, Samples, advise
from orphanwatch.exporter.id_disguises import is_telling
from orphanwatch.exporter.ids import NO_RULE
from orphanwatch.exporter.names import OTHER_POOL, StoreName
from orphanwatch.exporter.readings import Readings

_WHERE: Final = "identity"

_ASKED: Final = {
    StoreName.LEDGER: "ledger keys of the newest window",
    StoreName.LEASES: "task ids of unreleased leases",
}
_KNOWN: Final = {
    StoreName.GATEWAY: "tasks of the gateway",
    StoreName.LEDGER: "ledger keys of the newest window",
}

# Where fewer join than this part, no spelling is behind it if none was found.
_BADLY: Final = 0.5

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_PROVIDERS: Final = re.compile(r"(?:chatcmpl|cmpl|msg|resp|gen|run|batch)[-_]")
_ONE_ID: Final = (
    "let the front proxy make one id, send it on as X-Request-Id and as x-litellm-call-id, and "
    "enqueue with it as the job's own (docs/identity.md)"
)


def joins_badly(readings: Readings) -> bool:
    """Return whether some id finds no counterpart, so that samples are worth taking."""
    return any(not ids <= known for _, ids, known in _pairs(readings))


def identity_findings(config: Config, readings: Readings, samples: Samples) -> Iterator[Finding]:
    """Yield how many ids join, then what would make more of them; ``samples`` are as stored."""
    yield from _nameless(readings)
    is_late = config.stores.gateway is not None and config.stores.gateway.rows == "at_end"
    is_final = config.stores.ledger is not None and config.stores.ledger.shape == "final"
    for pair, ids, known in _pairs(readings):
        # While a request runs, a log has no row of it, and a ledger of final rows has none either.
        is_early = is_late and not (pair[0] is StoreName.LEDGER and is_final)
        yield _join(pair, ids, known, is_early=is_early or pair[1] is StoreName.LEDGER)
    if joins_badly(readings):
        yield from _remedies(config, readings, samples)
    yield from _pool_findings(config, readings)


def _pairs(readings: Readings) -> Iterator[tuple[Pair, AbstractSet[str], AbstractSet[str]]]:
    """Yield whose ids are looked up where; leases in the ledger only where nothing else tells."""
    held: set[str] = set()
    if readings.leases is not None:
        held = {lease.task_id for lease in readings.leases.unreleased if lease.task_id is not None}
    keys: set[str] = set()
    if readings.ledger is not None:
        keys = {key for key in readings.ledger.window.by_key if key is not None}
    if readings.gateway is not None:
        tasks = readings.gateway.tasks.keys()
        if readings.ledger is not None:
            yield (StoreName.LEDGER, StoreName.GATEWAY), keys, tasks
        if readings.leases is not None:
            yield (StoreName.LEASES, StoreName.GATEWAY), held, tasks
    elif readings.ledger is not None and readings.leases is not None:
        yield (StoreName.LEASES, StoreName.LEDGER), held, keys


def _join(pair: Pair, ids: AbstractSet[str], known: AbstractSet[str], *, is_early: bool) -> Finding:
    what, where = _ASKED[pair[0]], _KNOWN[pair[1]]
    matched = len(ids & known)
    if not ids:
        return Finding(Level.NOTE, _WHERE, f"there are no {what} to judge by")
    said = f"{matched} of {len(ids)} {what} are {where}"
    if matched == len(ids):
        return Finding(Level.OK, _WHERE, said)
    if matched or is_early:
        why = "; the others may be yet to come" if is_early else ""
        return Finding(Level.NOTE, _WHERE, f"{said}{why}")
    said = f"{said} (for example {min(ids)!r}); the stores must share one task id"
    return Finding(Level.WRONG, _WHERE, said)


def _nameless(readings: Readings) -> Iterator[Finding]:
    if readings.ledger is not None and None in (spent := readings.ledger.window.by_key):
        yield Finding(
            Level.WRONG if len(spent) == 1 else Level.NOTE,
            _WHERE,
            f"{spent[None].spend:g} tokens of the newest window carry no id that can be "
            "joined: empty, or kept as bytes or a fraction; write ids as text",
        )
    if readings.leases is not None:
        nameless = sum(1 for lease in readings.leases.unreleased if lease.task_id is None)
        if nameless:
            said = f"{nameless} unreleased leases carry no task id: whose work they are is unknown"
            yield Finding(Level.NOTE, _WHERE, said)


# Remedies


def _remedies(config: Config, readings: Readings, samples: Samples) -> Iterator[Finding]:
    current = {name: getattr(config.stores, name).id_rule for name in config.stores.configured()}
    advice = advise(samples, current)
    if advice is not None:
        lines = list(_lines(advice, current))
        yield from (
            _proposal(advice, lines)
            if advice.merged is None
            else (_merging(advice, advice.merged, lines),)
        )
        return
    for (asking, known), ids, found in _pairs(readings):
        if ids and len(ids & found) < _BADLY * len(ids):
            why = _why(asking, ids, readings)
            said = f"no strip_prefix, strip_suffix or uuid makes {_ASKED[asking]} {_KNOWN[known]}"
            yield Finding(Level.NOTE, _WHERE, f"{said}: {why}")


def _lines(advice: Advice, current: Any) -> Iterator[tuple[str, str]]:
    """Yield each key of the config that is to be set, and its value as YAML."""
    for store, rule in advice.rules.items():
        before = current.get(store, NO_RULE)._asdict()
        for key, value in rule._asdict().items():
            if value != before[key]:
                yield f"stores.{store}.{key}", _as_yaml(value)


def _as_yaml(value: object) -> str:
    """Return a value on one line that can be pasted between braces too."""
    quote = "'" if isinstance(value, str) and not _PLAIN.fullmatch(value) else None
    written = yaml.safe_dump(value, default_style=quote, width=float("inf"))
    return written.removesuffix("...\n").strip()


def _effect(advice: Advice) -> str:
    pairs = list(advice.joins)
    if len(pairs) > 1:
        # Where leases and ledger join the gateway, that they join each other is no news.
        pairs = [pair for pair in pairs if pair[1] is StoreName.GATEWAY]
    return " and ".join(
        f"{advice.joins[asking, known].after} of {advice.joins[asking, known].of} "
        f"{_ASKED[asking]} {_KNOWN[known]} (now {advice.joins[asking, known].before})"
        for asking, known in pairs
    )


def _proposal(advice: Advice, lines: Collection[tuple[str, str]]) -> Iterator[Finding]:
    several = f"{len(lines)} lines" if len(lines) > 1 else "line"
    nothing_joins = any(join.before == 0 < join.after for join in advice.joins.values())
    yield Finding(
        Level.WRONG if nothing_joins else Level.NOTE,
        _WHERE,
        f"spelled in another way: the next {several}, set in the config, would make "
        f"{_effect(advice)}",
    )
    for key, value in lines:
        yield Finding(Level.NOTE, key, value)


def _merging(advice: Advice, merged: Merged, lines: Collection[tuple[str, str]]) -> Finding:
    settings = " and ".join(f"{key}: {value}" for key, value in lines)
    one, other = merged.ids
    return Finding(
        Level.NOTE,
        _WHERE,
        f"{settings} would make {_effect(advice)}, but is not proposed: it would make "
        f"{merged.into!r} of both {one!r} and {other!r} in the {merged.store} store; only where "
        "these are one task, set it",
    )


def _why(asking: StoreName, ids: AbstractSet[str], readings: Readings) -> str:
    example = min(ids)
    if readings.leases is not None and ids & readings.leases.workers:
        worker = min(ids & readings.leases.workers)
        return f"{worker!r} is a worker's id; charge tokens to the task that they were decoded for"
    if sum(1 for one in ids if _PROVIDERS.match(one)) > len(ids) / 2:
        return (
            f"{example!r} is a response id of the provider; map task_id to where the gateway's own "
            "id is kept (columns:, or a SELECT that takes it out of the metadata), or hand that id "
            "on in the header x-litellm-call-id (docs/identity.md)"
        )
    if not any(map(is_telling, ids)):
        return f"ids as short as {example!r} could be equal by chance; {_ONE_ID}"
    if asking is StoreName.LEASES and all(map(str.isdecimal, ids)):
        return f"{example!r} is a number of the queue's own; {_ONE_ID}"
    return f"they speak of different things; {_ONE_ID}"


def _pool_findings(config: Config, readings: Readings) -> Iterator[Finding]:
    if readings.leases is None or readings.gateway is None:
        return
    pools = {lease.pool for lease in readings.leases.unreleased} | {
        task.pool for task in readings.gateway.tasks.values()
    }
    if pools == {None}:
        yield Finding(
            Level.NOTE,
            "pools",
            f"no store says which pool a task is in: all of them are in pool {OTHER_POOL!r}, and "
            "no overflow pool's admission closes for an orphan; map pool in the gateway or the "
            "leases",
        )
    for pool in sorted(pool for pool in pools if pool is not None and pool not in config.pools):
        yield Finding(
            Level.NOTE, "pools", f"the stores name pool {pool!r}, which is not configured"
        )
