"""The progress line of long commands is for a person at a terminal, and nobody else."""

from io import StringIO

import pytest

from orphanwatch.exporter.progress import progress


class Terminal(StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        """Return that somebody looks at it."""
        return True


def said(stream: StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is written while three steps are done."""
    monkeypatch.setattr("sys.stderr", stream)
    with progress("alerts", 3) as finished:
        for count in (1, 2, 3):
            finished(count)
    return stream.getvalue()


def test_a_terminal_shows_one_line_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar has its name, is drawn over itself, and comes to the end."""
    told = said(Terminal(), monkeypatch)
    assert "alerts" in told
    assert "100%" in told
    assert told.count("\n") == 1


def test_a_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log or a pipe there is no bar, and no line of one."""
    assert said(StringIO(), monkeypatch) == ""
