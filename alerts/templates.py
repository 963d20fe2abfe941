"""What Prometheus makes of a description, so that a test can demand it to the letter."""

import re
from collections.abc import Mapping
from typing import Final

from orphanwatch.alerts.alert import Firing
from orphanwatch.exporter.errors import RenderError

_LARGE: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL: Final = ("", "m", "u", "n", "p", "f", "a", "z", "y")


def spoken(description: str, firing: Firing) -> str:
    """Return the description as it reads when the alert fires.

    Raises ``RenderError`` if a template is left that the case says nothing about.
    """
    text = description
    for template, words in firing.words.items():
        text = text.replace(template, words)
    text = text.replace("{{ $value | humanize }}", humanized(firing.value))
    text = text.replace("{{ $value | humanizePercentage }}", f"{firing.value * 100:.4g}%")
    # At once, and then no more: a label's value may look like a template, and is none.
    told = {f"{{{{ $labels.{label} }}}}": value for label, value in firing.labels.items()}
    if "{{" in _filled(text, dict.fromkeys(told, "")):
        raise RenderError(f"a rule's test does not say what its description becomes: {text}")
    return _filled(text, told)


def _filled(text: str, told: Mapping[str, str]) -> str:
    known = "|".join(map(re.escape, told))
    return re.sub(known, lambda found: told[found[0]], text) if told else text


def told_of_own_job(query: str, words: str) -> str:
    """Return a template that says some words for each answer of a query about the alert's own job.

    The query itself sees every job that has these metrics, such as another stack's exporter.
    """
    return (
        f"{{{{ range query {queried(query)} }}}}{{{{ if eq .Labels.job $labels.job }}}}"
        f"{words}{{{{ end }}}}{{{{ end }}}}"
    )


def queried(query: str) -> str:
    """Return PromQL as a string of Go's templates: on one line, its own quotes escaped."""
    line = " ".join(part.strip() for part in query.splitlines())
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def humanized(value: float) -> str:
    """Return a number as Prometheus' ``humanize`` writes it: four digits and an SI prefix."""
    size = 0
    if abs(value) >= 1:
        while abs(value) >= 1000 and size < len(_LARGE) - 1:  # noqa: PLR2004  (an SI step)
            value, size = value / 1000, size + 1
        return f"{value:.4g}{_LARGE[size]}"
    while value and abs(value) < 1 and size < len(_SMALL) - 1:
        value, size = value * 1000, size + 1
    return f"{value:.4g}{_SMALL[size]}"
