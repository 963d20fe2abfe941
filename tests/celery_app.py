"""The Celery application that the real workers under test run; its broker is in the environment."""

import os
from typing import Any

import held_jobs
from celery import Celery  # type: ignore[import-untyped]  # ships no types


def app_on(url: str, **settings: Any) -> Celery:
    """Return the application on a broker, with its results in the same database."""
    made = Celery("celery_app", broker=url, backend=url, set_as_current=False)
    made.conf.update(
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        **settings,
    )
    made.task(name="hold")(held_jobs.hold)
    made.task(name="fail")(held_jobs.fail)
    return made


app = app_on(os.environ.get("ORPHANWATCH_TEST_BROKER", "memory://"))
