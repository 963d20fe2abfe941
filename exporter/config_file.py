"""Reads a config file: YAML, ``${ENV}`` references and ``*_file`` secrets, errors by key."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.config_documents import DERIVED
from orphanwatch.exporter.config_stores import SOURCE_TYPES
from orphanwatch.exporter.config_yaml import read_yaml
from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.measurement_file import find_measurement
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import PRESETS, filled_in, preset_of

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_KEYS: Final = ("url", "password", "token")
_FILE_KEYS: Final = ("path", "ca_file", "cert_file", "key_file")
_TAG_AT: Final = 2


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Return the configuration of a file.

    Relative SQLite paths, ``*_file`` paths and the state file are taken from the file's own
    folder. Raises ``ConfigError`` with every problem found, each by its key, never with a value.
    A measured grace that can't be used is no such problem: the config says so, and is a proposal.
    """
    environment = os.environ if environ is None else environ
    document = read_yaml(path)
    problems: list[str] = []
    resolved = _resolve(document, path.parent, environment, "", problems)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    filled = _fill_presets(resolved, problems)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    anchored = _anchor(filled, path.parent, problems)
    problems += _store_problems(anchored)
    try:
        config = parse_config(anchored)
    except ValidationError as error:
        problems += _say(error)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return _with_measurement(config, path)


def _with_measurement(config: Config, path: Path) -> Config:
    """Return the config with what its measurement file holds, read once, here."""
    if config.measured_grace is None:
        return config
    file = config.measured_grace.file
    remedy = f"orphanwatch grace --config.file {path} --save {file}"
    return config.with_measurement(find_measurement(Path(file), remedy))


def _resolve(
    value: Any, folder: Path, environ: Mapping[str, str], key: str, problems: list[str]
) -> Any:
    """Return the value with ``${ENV}`` and ``*_file`` filled in, noting what is missing."""
    if isinstance(value, str):
        return _fill(value, environ, key, problems)
    if isinstance(value, list):
        return [
            _resolve(item, folder, environ, f"{key}[{number}]", problems)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    resolved: dict[Any, Any] = {}
    for name, item in value.items():
        path = f"{key}.{name}" if key else str(name)
        content = _resolve(item, folder, environ, path, problems)
        secret = str(name).removesuffix("_file")
        if str(name).endswith("_file") and secret in _SECRET_KEYS and isinstance(content, str):
            if secret in value:
                problems.append(f"{path}: {secret} is given too; keep one of the two")
            resolved[secret] = _read_secret(folder / content, path, problems)
        else:
            resolved[name] = content
    return resolved


def _fill(text: str, environ: Mapping[str, str], key: str, problems: list[str]) -> str:
    problems += [
        f"{key}: the environment variable {name} is not set"
        for name in _REFERENCE.findall(text)
        if name not in environ
    ]
    return _REFERENCE.sub(lambda match: environ.get(match[1], ""), text)


def _read_secret(path: Path, key: str, problems: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        problems.append(f"{key}: {path} can't be read; check the path and its permissions")
        return ""


def _fill_presets(document: Any, problems: list[str]) -> Any:
    """Return the document with the settings of its presets, noting those that are none."""
    stores = document.get("stores")
    if not isinstance(stores, dict):
        return document
    return {
        **document,
        "stores": {name: _filled(name, store, problems) for name, store in stores.items()},
    }


def _filled(name: str, settings: Any, problems: list[str]) -> Any:
    chosen = settings.get("preset") if isinstance(settings, dict) else None
    if chosen is None or name not in set(StoreName):
        return settings
    if chosen not in PRESETS:
        problems.append(f"stores.{name}.preset: is none that we know; {', '.join(PRESETS)} are")
        return settings
    preset = preset_of(chosen)
    if name not in preset.stores:
        can = ", ".join(preset.stores)
        problems.append(f"stores.{name}.preset: {chosen} is no {name} store; it can be: {can}")
        return settings
    return filled_in(settings, preset, StoreName(name))


def _anchor(document: Any, folder: Path, problems: list[str]) -> Any:
    """Return the document with its relative paths taken from the config file's folder."""
    anchored = dict(document)
    if isinstance(anchored.get("state_file"), str):
        anchored["state_file"] = str(folder / anchored["state_file"])
    grace = anchored.get("grace")
    if isinstance(grace, dict) and isinstance(grace.get("file"), str) and grace["file"]:
        anchored["grace"] = {**grace, "file": str(folder / grace["file"])}
    drill = anchored.get("drill")
    if isinstance(drill, dict) and isinstance(drill.get("targets"), list):
        targets = [_anchor_files(target, folder) for target in drill["targets"]]
        anchored["drill"] = {**drill, "targets": targets}
    stores = anchored.get("stores")
    if isinstance(stores, dict):
        anchored["stores"] = {
            name: _anchor_store(store, folder, str(name), problems)
            if isinstance(store, dict)
            else store
            for name, store in stores.items()
        }
    return anchored


def _anchor_store(
    store: Mapping[str, Any], folder: Path, name: str, problems: list[str]
) -> dict[str, Any]:
    anchored = dict(_anchor_files(store, folder))
    if isinstance(store.get("url"), str) and store.get("type") == "sql":
        anchored["url"] = _anchor_url(store["url"], folder, name, problems)
    return anchored


def _anchor_files(settings: Any, folder: Path) -> Any:
    if not isinstance(settings, Mapping):
        return settings
    files = {
        key: str(folder.absolute() / settings[key])
        for key in _FILE_KEYS
        if isinstance(settings.get(key), str)
    }
    return {**settings, **files}


def _store_problems(document: Any) -> list[str]:
    """Return a problem for no store at all, and for each name under ``columns:`` that is none."""
    stores = document.get("stores")
    problems = []
    if stores == {}:
        problems.append("stores: " + _REMEDIES["stores"])
    for name, known in COLUMNS.items():
        store = stores.get(str(name)) if isinstance(stores, dict) else None
        columns = store.get("columns") if isinstance(store, dict) else None
        problems += [
            f"stores.{name}.columns.{column}: is no key we know; check its spelling"
            for column in (columns if isinstance(columns, dict) else ())
            if column not in (known if _is_sql(store) else (*known, *DERIVED))
        ]
    return problems


def _is_sql(store: Any) -> bool:
    return isinstance(store, dict) and store.get("type") == "sql"


def _anchor_url(text: str, folder: Path, store: str, problems: list[str]) -> str:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The reason is not passed on: it may hold what stands in the password's place.
        problems.append(
            f"stores.{store}.url: is no database URL; write for example sqlite:///stack.db"
        )
        return ""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return text
    if url.database.startswith("file:"):
        return text
    return url.set(database=str(folder.absolute() / url.database)).render_as_string(
        hide_password=False
    )


def _without_tag(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return where a problem is, without the ``type`` by which the store's model was picked."""
    is_tagged = len(loc) > _TAG_AT and loc[0] == "stores" and loc[_TAG_AT] in _types_of(loc[1])
    return (*loc[:_TAG_AT], *loc[_TAG_AT + 1 :]) if is_tagged else loc


def _types_of(store: int | str) -> tuple[str, ...]:
    """Return the types that a store can have."""
    return SOURCE_TYPES[StoreName(str(store))]


def _say(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        is_unknown = problem["type"] == "extra_forbidden"
        loc = _without_tag(problem["loc"])
        key = ".".join(str(part) for part in loc)
        message = problem["msg"].removeprefix("Value error, ")
        if is_unknown:
            message = _unknown_key(str(problem["loc"][-1]))
        elif problem["type"].startswith("union_tag"):
            types = ", ".join(_types_of(loc[1]))
            key, message = f"{key}.type", f"write one of {types}, or name a preset"
        elif problem["type"] == "model_type" and problem["loc"] == ("grace",):
            message = (
                "write {file: PATH} of a measured grace; a number of your own is grace_seconds"
            )
        elif problem["type"] == "missing":
            message = "is missing; " + _REMEDIES.get(str(problem["loc"][-1]), "add it")
        yield f"{key}: {message}" if key else message


def _unknown_key(key: str) -> str:
    if "." not in key:
        return "is no key we know; check its spelling"
    return f"is no key; write it nested: {': {'.join(key.split('.'))}: ...{'}' * key.count('.')}"


_REMEDIES: Final = {
    "shape": "declare increments, cumulative or final (it is never guessed)",
    "url": "write for example sqlite:///stack.db, or url_file",
    "stores": "name at least one of gateway, leases, ledger, queue",
    "role": "write paid or overflow",
    "form": "write promql for a Prometheus server, or exposition for a page of metrics",
}
