"""What a path that nothing answers is told: where the pages are. A browser gets links."""

from http import HTTPStatus
from typing import Final
from wsgiref.types import WSGIEnvironment

from orphanwatch.exporter.web_response import HTML, Response

_PLAIN: Final = (
    b"404 Not Found: the status page is at /, the runbook at /runbook/, JSON at /api/v1/verdict\n"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Not found · orphanwatch</title>
<style>
body {{ font: 17px/1.55 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; }}
body {{ padding: 0 1rem; }}
</style>
</head>
<body>
<h1>No such page</h1>
<p>This exporter shows none under that address.
The alert may be of another version, or the link was cut short.</p>
<p><a href="{root}">Status page: what to do now</a></p>
<p><a href="{root}runbook/service-page">Service page: it lists the pages of all alerts</a></p>
</body>
</html>
"""


def missing(environ: WSGIEnvironment) -> Response:
    """Return a 404 that leads back; nothing of the request is in it.

    Links are relative, so that they hold where a proxy serves everything below a path of its own.
    """
    if "text/html" not in environ.get("HTTP_ACCEPT", ""):
        return Response(HTTPStatus.NOT_FOUND, _PLAIN)
    root = "../" * (environ["PATH_INFO"].count("/") - 1) or "./"
    return Response(HTTPStatus.NOT_FOUND, _PAGE.format(root=root).encode(), HTML)
