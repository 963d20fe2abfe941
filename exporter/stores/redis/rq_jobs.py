"""RQ's jobs as a gateway: what waits, runs, was cancelled or has ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import instants_of, task_ids_of, texts_of
from orphanwatch.exporter.stores.redis.rq_keys import RqKeys
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import BATCH, WRONG_TYPE
from orphanwatch.exporter.stores.rows import Row

_FIELDS: Final = ("origin", "status", "created_at", "enqueued_at", "started_at", "ended_at")
_FIRST_STAMP: Final = 2

# How many of a queue's ended jobs are looked at, the newest first. RQ forgets a result after
# 500 s where its users don't say otherwise.
_ENDED_KEPT: Final = 50 * BATCH

_OUTCOMES: Final = {"finished": "ok", "failed": "error", "stopped": "error"}
"""How a job ended, by its status."""


class Sight(NamedTuple):
    """Where a job was seen."""

    queue: str | None
    mark: tuple[str, str] | None
    """As long as this is the same, so is the job: a registry, and the score there."""
    cancelled: Instant | None = None
    """The second of its cancel: RQ leaves the fraction off."""


class Job(NamedTuple):
    """What a job says of itself; one that has been forgotten says nothing."""

    queue: str | None = None
    status: str | None = None
    created_at: Instant | None = None
    enqueued_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None

    @property
    def submitted_at(self) -> Instant | None:
        """When it was put into its queue, the last time."""
        return self.created_at if self.enqueued_at is None else self.enqueued_at

    @property
    def finished_at(self) -> Instant | None:
        """When it ended, None where it was started or put into its queue again since."""
        ended = self.ended_at
        if ended is None or self.status not in (*_OUTCOMES, "canceled"):
            return None
        last = max(self.enqueued_at or ended, self.started_at or ended)
        return ended if ended >= last else None

    def cancelled_at(self, cancelled: Instant | None) -> Instant | None:
        """Return when it was cancelled, given the second of that.

        A cancel in the second of the submission is one of that submission, and not from before.
        """
        submitted = self.submitted_at
        if cancelled is None or submitted is None or self.status == "queued":
            return cancelled
        return submitted if cancelled < submitted < cancelled + SECOND else cancelled


_FORGOTTEN: Final = Job()


class RqGateway(RedisRows):
    """Jobs, each with the queue that it was put into as its pool."""

    columns = ("task_id", "pool", "submitted_at", "cancelled_at", "finished_at", "outcome")

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        super().__init__(StoreName.GATEWAY, config, clock)
        self._keys = RqKeys(self._database, config)
        self._read: dict[str, tuple[tuple[str, str], Job]] = {}
        """Jobs that wait or have ended: they are read once."""

    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return the jobs that wait, run or ended, and those cancelled within the scope."""
        sights = self._sights(windows)
        jobs = self._jobs(sights)
        ids = task_ids_of(list(jobs), self._config.id_rule)
        rows = []
        for task_id, (job_id, job) in zip(ids, jobs.items(), strict=True):
            sight = sights[job_id]
            if job == _FORGOTTEN and sight.cancelled is None:
                continue
            finished = job.finished_at
            rows.append(
                (
                    task_id,
                    job.queue or sight.queue,
                    job.submitted_at,
                    job.cancelled_at(sight.cancelled),
                    finished,
                    None if finished is None else _OUTCOMES.get(job.status or ""),
                )
            )
        return rows

    def _sights(self, windows: Windows) -> dict[str, Sight]:
        """Return every job that is of interest, by its id."""
        sights: dict[str, Sight] = {}
        queues = self._keys.queues()
        since = windows.scope_start // SECOND
        for queue in queues:
            for registry in ("finished", "failed"):
                for job, score in self._ended(registry, queue):
                    sights[job] = Sight(queue, (registry, score))
            for job in self._waiting(queue):
                sights[job] = Sight(queue, ("queue", ""))
        for queue in queues:
            cancels = self._database.ask(
                "ZRANGEBYSCORE", self._keys.of("canceled", queue), str(since), "+inf", "WITHSCORES"
            )
            for job, cancelled in self._cancels(queue, _pairs(cancels)):
                sights[job] = sights.get(job, Sight(queue, None))._replace(cancelled=cancelled)
        sights.update(self._running(sights))
        return sights

    def _running(self, sights: Mapping[str, Sight]) -> dict[str, Sight]:
        """Return the running jobs, however long ago they were cancelled."""
        jobs = self._keys.running()
        queues = self._keys.queue_of(jobs)
        cancels = self._database.ask_all(
            ("ZSCORE", self._keys.of("canceled", queue or ""), job)
            for job, queue in zip(jobs, queues, strict=True)
        )
        cancelled = dict(self._cancels("", zip(jobs, cancels, strict=True)))
        return {
            job: Sight(queue, None, cancelled.get(job))
            for job, queue in zip(jobs, queues, strict=True)
            if job not in sights or sights[job].cancelled is None
        }

    def _cancels(
        self, queue: str, scores: Iterable[tuple[str, str | None]]
    ) -> Iterator[tuple[str, Instant]]:
        """Yield the cancelled ones of the jobs, with the second of their cancel."""
        pairs = list(scores)
        seconds, bad = instants_of([score for _, score in pairs], "s", self._config.zone)
        for place in bad:
            self.reject(RejectReason.INVALID_INSTANT, f"{queue} {pairs[place][0]}: cancelled")
        for (job, _), cancelled in zip(pairs, seconds, strict=True):
            if cancelled is not None:
                yield job, cancelled

    def _waiting(self, queue: str) -> Iterator[str]:
        """Yield the jobs in a queue.

        Counted from the end, where new ones come in: what is taken at the head meanwhile
        shifts no place, and what comes in only shows a job twice.
        """
        key, last = self._keys.of("queue", queue), -1
        while True:
            chunk = self._database.ask("LRANGE", key, str(last - BATCH + 1), str(last))
            yield from chunk
            if len(chunk) < BATCH:
                return
            last -= BATCH

    def _ended(self, registry: str, queue: str) -> Iterator[tuple[str, str]]:
        """Yield the newest jobs of a registry with their scores: from the top, as above."""
        key = self._keys.of(registry, queue)
        for first in range(0, _ENDED_KEPT, BATCH):
            chunk = self._database.ask(
                "ZREVRANGE", key, str(first), str(first + BATCH - 1), "WITHSCORES"
            )
            yield from _pairs(chunk)
            if len(chunk) < 2 * BATCH:
                return

    def _jobs(self, sights: Mapping[str, Sight]) -> dict[str, Job]:
        """Return the jobs without those that can't be read; each is read once while it rests."""
        kept = {
            job: self._read[job]
            for job, sight in sights.items()
            if sight.mark is not None and job in self._read and self._read[job][0] == sight.mark
        }
        fresh = self._fetch([job for job in sights if job not in kept])
        self._read = kept | {
            job: (mark, said)
            for job, said in fresh.items()
            if (mark := sights[job].mark) is not None
        }
        return {
            job: kept[job][1] if job in kept else fresh[job]
            for job in sights
            if job in kept or job in fresh
        }

    def _fetch(self, jobs: Sequence[str]) -> dict[str, Job]:
        """Read jobs; those that can't be read are counted and left out."""
        keys = [self._keys.of("job", job) for job in jobs]
        found = self._database.ask_each(keys, "HMGET", *_FIELDS)
        bad = {place for place, cells in enumerate(found) if cells is WRONG_TYPE}
        for place in bad:
            self.reject(RejectReason.INVALID_RECORD, f"{keys[place]}: is no hash")
        empty = [None] * len(_FIELDS)
        columns = list(
            zip(*(empty if cells is WRONG_TYPE else cells for cells in found), strict=True)
        )
        if not columns:
            return {}
        read: list[Iterable[object]] = [texts_of(cells) for cells in columns[:_FIRST_STAMP]]
        for name, cells in zip(_FIELDS[_FIRST_STAMP:], columns[_FIRST_STAMP:], strict=True):
            instants, unread = instants_of(cells, "iso", self._config.zone)
            for place in unread:
                self.reject(RejectReason.INVALID_INSTANT, f"{keys[place]}: {name}")
            bad.update(unread)
            read.append(instants)
        said = list(map(Job._make, zip(*read, strict=True)))
        self._add_ends(jobs, said)
        return {
            job: it
            for place, (job, it) in enumerate(zip(jobs, said, strict=True))
            if place not in bad
        }

    def _add_ends(self, jobs: Sequence[str], said: list[Job]) -> None:
        """Fill in the ends of jobs that were stopped or killed: only their result has it.

        It is an entry of a stream, whose id is when it was written.
        """
        open_ended = [
            place
            for place, job in enumerate(said)
            if job.status in _OUTCOMES and job.ended_at is None
        ]
        keys = [self._keys.of("results", jobs[place]) for place in open_ended]
        newest = self._database.ask_each(keys, "XREVRANGE", "+", "-", "COUNT", "1")
        for place, entries in zip(open_ended, newest, strict=True):
            if entries and entries is not WRONG_TYPE:
                milliseconds = entries[0][0].partition("-")[0]
                [ended], _ = instants_of([milliseconds], "ms", self._config.zone)
                said[place] = said[place]._replace(ended_at=ended)


def _pairs(flat: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return members with their scores."""
    return zip(flat[::2], flat[1::2], strict=True)
