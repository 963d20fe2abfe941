"""Stores in Redis: home-made leases, and the job queues of RQ, Celery and BullMQ."""
