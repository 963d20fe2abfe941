"""Which task of the gateway's store is which attempt of a drill's.

The drill sends an id of its own with each request. Most gateways make one of theirs: then the
answer may say it, and else the retry id tells, which is the client's to choose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orphanwatch.exporter.channel import Channel
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_requests import Ask
from orphanwatch.exporter.ids import NO_RULE
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Task
from orphanwatch.exporter.stops import newest_submissions
from orphanwatch.exporter.stores.questions import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An attempt that is on its way, or was."""

    ask: Ask
    answered_id: str | None
    """What the gateway itself said its id is; None where it did not."""
    left_at: Instant | None
    """None while its client waits."""


class TargetIds:
    """Remembers what was found: a row that ages out of a store does not change its name."""

    def __init__(self, config: Config) -> None:
        gateway = config.stores.gateway
        self._rule = NO_RULE if gateway is None else gateway.id_rule
        self._known: dict[Ask, str] = {}

    def of(self, ask: Ask) -> str:
        """Return the id by which the stores know an attempt; the one sent, until they tell."""
        return self._known.get(ask, self._rule.apply(ask.task_id))

    def find(self, gateway: Channel[Gateway], sent: Sequence[Sent]) -> dict[Ask, Task]:
        """Return the gateway's row of each attempt that has one."""
        found = self._named(gateway, sent)
        lost = [one.ask for one in sent if one.ask not in found]
        if lost:
            retry_ids = {ask.retry_id for ask in lost}
            peers = gateway.ask(lambda store: store.tasks_of_requests(retry_ids)) or ()
            taken = {task.task_id for task in found.values()}
            held, _ = newest_submissions(task for task in peers if task.task_id not in taken)
            found |= dict(_paired(lost, held))
        self._known |= {
            ask: task.task_id for ask, task in found.items() if task.task_id is not None
        }
        return found

    def _named(self, gateway: Channel[Gateway], sent: Sequence[Sent]) -> dict[Ask, Task]:
        candidates = {one.ask: list(self._candidates(one)) for one in sent}
        ids = {task_id for names in candidates.values() for task_id in names}
        held, _ = newest_submissions(gateway.ask(lambda store: store.tasks(ids)) or ())
        by_id = {task.task_id: task for task in held}
        return {
            ask: by_id[known]
            for ask, names in candidates.items()
            if (known := next((name for name in names if name in by_id), None)) is not None
        }

    def _candidates(self, one: Sent) -> Iterator[str]:
        if one.ask in self._known:
            yield self._known[one.ask]
        if one.answered_id:
            yield self._rule.apply(one.answered_id)
        yield self._rule.apply(one.ask.task_id)


def _paired(asks: Sequence[Ask], tasks: Sequence[Task]) -> Iterator[tuple[Ask, Task]]:
    """Yield attempts with the rows that share their retry id.

    By the number of the attempt; a store that does not state it has them in their order.
    """
    for retry_id in {ask.retry_id for ask in asks}:
        mine = [ask for ask in asks if ask.retry_id == retry_id]
        rows = sorted(
            (task for task in tasks if task.retry_id == retry_id),
            key=lambda task: task.submitted_at or 0,
        )
        if any(row.attempt > 1 for row in rows):
            by_attempt = {row.attempt: row for row in rows}
            yield from ((ask, by_attempt[ask.attempt]) for ask in mine if ask.attempt in by_attempt)
        else:
            yield from zip(mine, rows, strict=False)
