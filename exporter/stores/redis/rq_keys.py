"""Where RQ keeps what: its queues, its workers, and what they are at."""

from collections.abc import Sequence
from itertools import compress

from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.stores.redis.wire import WRONG_TYPE, RedisDatabase


class RqKeys:
    """Where RQ keeps what, in one database."""

    def __init__(self, database: RedisDatabase, config: RedisSource) -> None:
        self._database = database
        self._prefix = config.prefix
        self._named = config.queues

    def of(self, *parts: str) -> str:
        """Return the key of these parts: ``rq:job:ID``."""
        return ":".join((self._prefix, *parts))

    def queues(self) -> list[str]:
        """Return the queues that are looked at; raises where there is no sign of RQ, or of one."""
        listed = self._database.ask("SMEMBERS", self.of("queues"))
        known = [key.removeprefix(self.of("queue", "")) for key in listed]
        if not self._named:
            if not known:
                self.expect_signs()
            return sorted(known)
        unseen = [name for name in self._named if name not in known]
        # One that never had a job is known by the workers that wait for it.
        awaited = self._database.ask_each([self.of("workers", name) for name in unseen], "EXISTS")
        for name in compress(unseen, (not is_awaited for is_awaited in awaited)):
            raise self._database.missing(
                f"RQ's queue {name}", "check queues, prefix and the database number"
            )
        return list(self._named)

    def expect_signs(self) -> None:
        """Raise where nothing here is RQ's: it would look like an idle one."""
        if not self._database.ask("EXISTS", self.of("queues"), self.of("workers")):
            raise self._database.missing("RQ", "check prefix and the database number")

    def running(self) -> list[str]:
        """Return the ids of the jobs that workers are at, cancelled ones too."""
        database = self._database
        workers = database.ask("SMEMBERS", self.of("workers"))
        executions = [
            execution
            for of_worker in database.ask_all(("SMEMBERS", f"{key}:executions") for key in workers)
            for execution in of_worker
        ]
        # What a dead worker was at stays listed for longer than it counts.
        alive = database.ask_each([self.of("execution", it) for it in executions], "EXISTS")
        jobs = [execution.rpartition(":")[0] for execution in compress(executions, alive)]
        # Before RQ 3, workers said it in a field instead.
        jobs += filter(None, database.ask_all(("HGET", key, "current_job") for key in workers))
        unique = list(dict.fromkeys(jobs))
        if not self._named:
            return unique
        return list(compress(unique, (name in self._named for name in self.queue_of(unique))))

    def queue_of(self, jobs: Sequence[str]) -> list[str | None]:
        """Return the queue that each job was put into, None where the job is not known."""
        names = self._database.ask_each([self.of("job", job) for job in jobs], "HGET", "origin")
        return [None if name is WRONG_TYPE else name for name in names]
