"""A real nginx on a config of the test's own."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Server, free_port, program, started

PORT = re.compile(r"\bPORT\d*\b")

AROUND = """\
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 64; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{body}
}}
"""


class Nginx(Server):
    """Nginx whose config is the body of the ``http`` block; paths are relative to its folder."""

    name = "nginx"

    def __init__(self, folder: Path, body: str) -> None:
        super().__init__(folder)
        self.ports: dict[str, int] = {}
        self._body = body

    @property
    def url(self) -> str:
        """The address of the port named ``PORT``, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def reopen(self) -> None:
        """Have the logs opened anew, as logrotate does; the worker follows some ms later."""
        assert self.process is not None, "nginx does not run"
        self.process.send_signal(signal.SIGUSR1)

    def command(self) -> list[str]:
        """Write the config and return the command that serves it."""
        if self.ports.get("PORT") != self.port:
            words = sorted(set(PORT.findall(self._body)) - {"PORT"})
            self.ports = {"PORT": self.port, **{word: free_port() for word in words}}
        config = self.folder / "nginx.conf"
        # The folders of a test that root runs are root's alone, so the worker must be root too.
        user = "user root root;" if os.geteuid() == 0 else ""
        body = PORT.sub(lambda word: str(self.ports[word[0]]), self._body)
        config.write_text(AROUND.format(user=user, folder=self.folder, body=body))
        command = [program("nginx"), "-p", str(self.folder), "-c", str(config)]
        return [*command, "-e", str(self.folder / "error.log"), "-g", "daemon off;"]

    def is_ready(self) -> bool:
        """Compare the process with the note that nginx writes once it has all its ports."""
        noted = (self.folder / "nginx.pid").read_text().strip()
        return self.process is not None and noted == str(self.process.pid)


@contextmanager
def running_nginx(folder: Path, body: str) -> Iterator[Nginx]:
    """Run nginx until the block ends, with the text as its ``http`` block.

    Each of the words ``PORT``, ``PORT2``, ``PORT3`` ... in it becomes a free port, to be found
    in ``ports``; the folder must be there, and nobody else's.
    """
    with started(Nginx(folder, body)) as server:
        yield server
