"""Puts generated files into a folder, or tells which of those there are out of date."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orphanwatch.exporter.errors import RenderError


def write_files(files: Mapping[str, str], folder: Path, option: str = "--out") -> None:
    """Write each file whole or not at all; the folder is made where it is missing.

    A link is followed, and what is no file stays: ``/dev/stdout`` is both. Raises ``RenderError``
    that names what can't be written, and the option that names the place.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = Path(os.path.realpath(folder / name))
            if path.exists() and not path.is_file():
                raise RenderError(f"{folder / name} is no regular file; choose another {option}")
            _replace(path, text)
    except OSError as error:
        raise RenderError(
            f"{error.filename or folder} can't be written: {error.strerror}; "
            f"choose another {option}, or mend its permissions"
        ) from error


def outdated(files: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the names of the files that are missing in the folder, or differ there."""
    return tuple(name for name, text in files.items() if _read(folder / name) != text)


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _replace(path: Path, text: str) -> None:
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
        # A draft is private to its owner; what is generated is for everybody to read.
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
