"""procrastinate, a job queue in PostgreSQL: requests, leases and queue out of one database.

A job is a task. Nothing of a job's arguments is read.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

# procrastinate_events is the only place with instants. Each instant below is a column of one
# event row, not an aggregate over a job's events: so "stopped after an instant" starts from the
# newest events, and not from all jobs there ever were.

# Deferred, or retried by hand, or due for the first time: whatever came last. The due times of
# later tries are none: between two tries somebody waits.
_BEGAN: Final = """
SELECT event.job_id, event.at
FROM procrastinate_events AS event
WHERE event.type IN ('deferred', 'retried', 'scheduled')
AND NOT EXISTS (
  SELECT FROM procrastinate_events AS other
  WHERE other.job_id = event.job_id AND (
    (event.type = 'scheduled' AND other.type = 'started' AND other.id < event.id)
    OR (other.type IN ('deferred', 'retried') AND (other.at, other.id) > (event.at, event.id))
    OR (other.type = 'scheduled' AND (other.at, other.id) > (event.at, event.id)
        AND NOT EXISTS (
          SELECT FROM procrastinate_events AS start
          WHERE start.job_id = other.job_id AND start.type = 'started' AND start.id < other.id
        ))
  )
)
"""

# The first request to abort, or the cancel while it waited, since the job was last retried by
# hand. The job's own abort_requested is no help: it is set back to false when the job ends.
_STOPPED: Final = """
SELECT event.job_id, event.at
FROM procrastinate_events AS event
WHERE event.type IN ('abort_requested', 'cancelled')
AND NOT EXISTS (
  SELECT FROM procrastinate_events AS other
  WHERE other.job_id = event.job_id AND (
    (other.type = 'retried' AND other.id > event.id)
    OR (other.type IN ('abort_requested', 'cancelled') AND other.id < event.id
        AND NOT EXISTS (
          SELECT FROM procrastinate_events AS again
          WHERE again.job_id = other.job_id AND again.type = 'retried' AND again.id > other.id
        ))
  )
)
"""

_ENDED: Final = """
SELECT event.job_id, event.at
FROM procrastinate_events AS event
WHERE event.type IN ('succeeded', 'failed', 'aborted', 'cancelled')
AND NOT EXISTS (
  SELECT FROM procrastinate_events AS other
  WHERE other.job_id = event.job_id AND other.type = 'retried' AND other.id > event.id
)
"""

GATEWAY: Final = f"""(
SELECT job.id AS task_id,
  job.queue_name AS pool,
  began.at AS submitted_at,
  stopped.at AS cancelled_at,
  ended.at AS finished_at,
  CASE job.status WHEN 'succeeded' THEN 'ok' ELSE 'error' END AS outcome
FROM procrastinate_jobs AS job
JOIN ({_BEGAN}) AS began ON began.job_id = job.id
LEFT JOIN ({_STOPPED}) AS stopped ON stopped.job_id = job.id
LEFT JOIN ({_ENDED}) AS ended ON ended.job_id = job.id
)"""  # noqa: S608  (of constants)

# A heartbeat is the worker's, for all of its jobs, so one from before the start says nothing of
# the job. A worker that is gone has no row: a lease without heartbeats expires all the same.
# What has ended is taken from the events: the job itself may be running again by now.
LEASES: Final = """(
SELECT job.id AS task_id,
  job.worker_id,
  job.queue_name AS pool,
  started.at AS acquired_at,
  CASE WHEN worker.last_heartbeat > started.at THEN worker.last_heartbeat END AS heartbeat_at,
  CAST(NULL AS timestamptz) AS released_at
FROM procrastinate_jobs AS job
CROSS JOIN LATERAL (
  SELECT max(event.at) AS at FROM procrastinate_events AS event
  WHERE event.job_id = job.id AND event.type = 'started'
) AS started
LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
WHERE job.status = 'doing'
UNION ALL
SELECT job.id AS task_id,
  CAST(NULL AS bigint),
  job.queue_name,
  started.at,
  ended.at,
  ended.at
FROM procrastinate_events AS ended
JOIN procrastinate_jobs AS job ON job.id = ended.job_id
JOIN procrastinate_events AS started ON started.job_id = ended.job_id
  AND started.type = 'started' AND started.id < ended.id
WHERE ended.type IN ('succeeded', 'failed', 'aborted', 'deferred_for_retry')
AND ended.at IS NOT NULL
AND NOT EXISTS (
  SELECT FROM procrastinate_events AS again
  WHERE again.job_id = ended.job_id AND again.type = 'started'
  AND again.id > started.id AND again.id < ended.id
)
)"""

# Jobs that are due, and those between two tries. It is stamped a little early, so that it is a
# sample of now even where the database's clock is ahead of ours by some seconds.
QUEUE: Final = """(
SELECT now() - interval '10 seconds' AS sampled_at,
  count(waiting.since) AS depth,
  COALESCE(EXTRACT(EPOCH FROM now() - min(waiting.since) FILTER (WHERE waiting.since <= now())), 0)
    AS age_seconds,
  count(*) FILTER (WHERE job.status = 'doing') AS in_flight
FROM procrastinate_jobs AS job
LEFT JOIN LATERAL (
  SELECT GREATEST(max(event.at), job.scheduled_at) AS since
  FROM procrastinate_events AS event
  WHERE event.job_id = job.id AND event.type IN ('deferred', 'deferred_for_retry', 'retried')
) AS waiting ON job.status = 'todo' AND (job.attempts > 0 OR waiting.since <= now())
WHERE job.status IN ('todo', 'doing')
)"""

_URL: Final = {"url": "postgresql://orphanwatch:${PROCRASTINATE_PASSWORD}@db/app"}

PRESET: Final = Preset(
    name="procrastinate",
    title="procrastinate: job queue in PostgreSQL",
    stores={
        StoreName.GATEWAY: {"type": "sql", "relation": GATEWAY},
        StoreName.LEASES: {
            "type": "sql",
            "relation": LEASES,
            # A worker beats every 10 s, and is taken for dead after 30 s.
            "heartbeat": "10s",
            "lease_ttl": "30s",
        },
        StoreName.QUEUE: {"type": "sql", "relation": QUEUE},
    },
    asks={StoreName.GATEWAY: _URL, StoreName.LEASES: _URL, StoreName.QUEUE: _URL},
    notes=(
        "Each queue is a pool: name the pools as your queues are named.",
        "A job's id is its task_id: write it into your ledger with the tokens.",
        "Jobs that are deleted when they end leave no trace: keep them for an hour.",
        "With many jobs, CREATE INDEX CONCURRENTLY ON procrastinate_events (type, at) helps.",
    ),
)
