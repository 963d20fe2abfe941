"""Writing generated files: whole or not at all, and nothing that is not a file is replaced."""

import os
from pathlib import Path

import pytest

from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.errors import RenderError


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    """A terminal, a pipe or a device is no place to put a file in."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stdout").symlink_to("pipe")
    for name in ("pipe", "stdout"):
        with pytest.raises(RenderError, match=f"{name} is no regular file; choose another --save"):
            write_files({name: "text"}, tmp_path, "--save")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "stdout").is_symlink()


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file that it leads to is written, and the link stays one."""
    (tmp_path / "now").mkdir()
    (tmp_path / "grace.yml").symlink_to("now/grace.yml")
    write_files({"grace.yml": "text"}, tmp_path)
    assert (tmp_path / "now" / "grace.yml").read_text() == "text"
    assert (tmp_path / "grace.yml").is_symlink()
    assert list((tmp_path / "now").iterdir()) == [tmp_path / "now" / "grace.yml"]
