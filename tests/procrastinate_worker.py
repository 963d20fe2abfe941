"""A procrastinate app and its real worker: ``python procrastinate_worker.py CONNINFO``.

Its jobs decode: each 0.2 s they write eight tokens into ``token_usage``, until their id stands in
``may_end``.
"""

import asyncio
import sys
import time

import procrastinate
import psycopg
from procrastinate.exceptions import JobAborted

BEAT_SECONDS = 1.0
STEP_SECONDS = 0.2
TOKENS = 8


def app_of(conninfo: str) -> procrastinate.App:
    """Return the app, with its jobs, on a database.

    ``request_id`` is what the rest of a stack would know the request by; no job needs it.
    """
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=conninfo))

    def decode(context: procrastinate.JobContext, *, heeds: bool) -> None:
        job = {"job": context.job.id, "tokens": TOKENS}
        with psycopg.connect(conninfo, autocommit=True) as connection:
            while not connection.execute(
                "SELECT FROM may_end WHERE job_id = %(job)s", job
            ).fetchall():
                connection.execute(
                    "INSERT INTO token_usage (task_id, tokens) VALUES (%(job)s, %(tokens)s)", job
                )
                time.sleep(STEP_SECONDS)
                if heeds and context.should_abort():
                    raise JobAborted

    @app.task(name="ignoring", pass_context=True)
    def ignoring(context: procrastinate.JobContext, request_id: str) -> None:  # noqa: ARG001
        """Decode to the end, whoever asks to abort."""
        decode(context, heeds=False)

    @app.task(name="heeding", pass_context=True)
    def heeding(context: procrastinate.JobContext, request_id: str) -> None:  # noqa: ARG001
        """Decode until somebody asks to abort."""
        decode(context, heeds=True)

    @app.task(name="cancellable")
    async def cancellable(request_id: str) -> None:  # noqa: ARG001
        """Wait, and be cancelled by procrastinate itself."""
        await asyncio.sleep(600)

    @app.task(name="failing_once", pass_context=True, retry=True)
    def failing_once(context: procrastinate.JobContext, request_id: str) -> None:  # noqa: ARG001
        """Fail at the first try, decode at the second."""
        if context.job.attempts == 0:
            raise RuntimeError("the first try fails")
        decode(context, heeds=False)

    @app.task(name="failing", pass_context=True)
    def failing(context: procrastinate.JobContext, request_id: str) -> None:  # noqa: ARG001
        """Decode to the end and fail, each time."""
        decode(context, heeds=False)
        raise RuntimeError("it fails")

    return app


if __name__ == "__main__":
    app_of(sys.argv[1]).run_worker(concurrency=8, update_heartbeat_interval=BEAT_SECONDS)
