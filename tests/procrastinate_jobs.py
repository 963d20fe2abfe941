"""procrastinate on a real PostgreSQL, with the real worker, set up as the preset's page says."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import procrastinate
from cli_session import run
from database_servers import PostgreSQL
from preset_pages import (
    Database,
    configs_of,
    evaluated,
    plain_url,
    reader,
    statement_of,
    write_config,
)
from procrastinate_worker import app_of
from servers import running, wait_until
from stack_file import Document

WORKER = Path(__file__).with_name("procrastinate_worker.py")
PAGE_CONFIG, OWN_ID_CONFIG = configs_of("procrastinate")


@dataclass(frozen=True)
class Jobs:
    """A database with procrastinate's tables, seen by the application and by Orphanwatch."""

    database: Database
    app: procrastinate.App
    folder: Path
    reader_url: str

    def defer(self, task: str, *, request_id: str = "", **options: Any) -> int:
        """Defer a job and return its id."""
        deferrer = self.app.configure_task(task, queue="overflow", **options)
        return deferrer.defer(request_id=request_id)

    def abort(self, *job_ids: int) -> None:
        """Cancel jobs: those that wait at once, those that run by a request to abort."""
        for job_id in job_ids:
            assert self.app.job_manager.cancel_job_by_id(job_id, abort=True)

    def let_end(self, *job_ids: int) -> None:
        """Let jobs that ignore everything else come to their end."""
        for job_id in job_ids:
            self.database.run("INSERT INTO may_end VALUES (:job_id)", job_id=job_id)

    def status(self, job_id: int) -> str:
        """Return what procrastinate says of a job."""
        said = self.database.value(
            "SELECT status FROM procrastinate_jobs WHERE id = :job_id", job_id=job_id
        )
        return str(said)

    def wait_for(self, status: str, *job_ids: int, seconds: float = 20) -> None:
        """Return when all of the jobs are there."""
        wait_until(
            f"{status} of {job_ids}",
            lambda: all(self.status(job_id) == status for job_id in job_ids),
            seconds,
        )

    @contextmanager
    def worker(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run procrastinate's worker until the block ends."""
        command = [sys.executable, str(WORKER), plain_url(self.database.url)]
        # A worker that is asked to stop waits for its threads, which wait for nobody.
        with running(command, self.folder / "worker.log", stop=signal.SIGKILL) as process:
            yield process

    def snapshot(self) -> Document:
        """Return one evaluation of the config that was written, now."""
        return evaluated(self.folder / "orphanwatch.yml", APP_DATABASE_URL=self.reader_url)

    def command(self, words: str) -> str:
        """Return what the program itself says of that config; it must succeed."""
        arguments = (*words.split(), "--config.file", "orphanwatch.yml")
        answer = run(self.folder, *arguments, APP_DATABASE_URL=self.reader_url)
        assert answer.code == 0, answer
        return answer.out


@contextmanager
def procrastinate_jobs(server: PostgreSQL, folder: Path) -> Iterator[Jobs]:
    """Yield an empty queue, with the ledger, the index and the role of the page."""
    with server.new_database() as url:
        app = app_of(plain_url(url))
        with closing(app.open()):
            app.schema_manager.apply_schema()
            database = Database(url)
            ledger = statement_of("procrastinate", "CREATE TABLE token_usage")
            index = statement_of("procrastinate", "CREATE INDEX CONCURRENTLY")
            database.run(*(each for each in (ledger + index).split(";") if each.strip()))
            database.run("CREATE TABLE may_end (job_id bigint)")
            write_config(folder, PAGE_CONFIG)
            with reader(database, statement_of("procrastinate", "CREATE ROLE")) as reader_url:
                yield Jobs(database, app, folder, reader_url)


def orphans(document: Document) -> dict[int, dict[str, Any]]:
    """Return the orphans by the ids of their jobs."""
    return {int(orphan["task_id"]): orphan for orphan in document["orphans"]}
