"""What docs/configuration.md says of secrets: each can come from outside of the file."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from config_models import KINDS
from documentation import DOCS, EXAMPLE_URLS, section, tables
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from orphanwatch.exporter.config_documents import HttpJsonSource
from orphanwatch.exporter.config_file import load_config

PAGE = (DOCS / "configuration.md").read_text(encoding="utf-8")


def said_of_secrets() -> set[tuple[str, str]]:
    """Return kind and key of each secret that the page says can come from a file."""
    [table] = tables(section(PAGE, "Secrets"))
    return {
        (kind.strip("`"), what.strip("`"))
        for what, kinds, file in table.rows
        for kind in kinds.split(", ")
        if file == f"`{what.strip('`')}_file`"
    }


def is_secret(field: FieldInfo) -> bool:
    """Return whether a field's value, or one of them, is never shown."""
    return SecretStr in (field.annotation, *get_args(field.annotation))


def test_each_secret_of_each_kind_is_in_the_table_of_secrets() -> None:
    """What is never shown can come from a file; headers, by the environment."""
    secret = {
        (kind, key)
        for kind, model in KINDS.items()
        for key, field in model.model_fields.items()
        if (is_secret(field) or key == "url") and key != "headers"
    }
    assert said_of_secrets() == secret


@pytest.mark.parametrize(("kind", "key"), sorted(said_of_secrets()))
def test_a_secret_is_read_from_its_file(kind: str, key: str, tmp_path: Path) -> None:
    """The file's content stands for the key, and the config's own text never shows it."""
    values = {"url": EXAMPLE_URLS[kind], "password": "hunter2", "token": "hunter2"}
    role, settings = SMALLEST[kind]
    store = {"type": kind, "url": values["url"], **settings}
    if key == "password":
        store["username"] = "reader"
    store.pop(key, None)
    file = tmp_path / "orphanwatch.yml"
    stores = {role: {**store, f"{key}_file": "secret"}}
    file.write_text(yaml.safe_dump({"stores": stores}), encoding="utf-8")
    (tmp_path / "secret").write_text(f"{values[key]}\n", encoding="utf-8")

    [source] = load_config(file, {}).stores.sources()

    read = getattr(source, key)
    text = read.get_secret_value() if isinstance(read, SecretStr) else read
    assert text in (values[key], (values[key],))


SMALLEST: dict[str, tuple[str, dict[str, Any]]] = {
    "sql": ("queue", {}),
    "redis": ("leases", {"key": "lease:{task_id}"}),
    "http_json": ("queue", {}),
    "prometheus": ("queue", {"form": "exposition", "metrics": {"depth": "waiting"}}),
}
"""A role and the settings besides ``url`` without which a kind is refused."""


def test_a_header_comes_from_the_environment(tmp_path: Path) -> None:
    """As the page says: its value is ``${NAME}``, or a part of it is."""
    file = tmp_path / "orphanwatch.yml"
    file.write_text(
        'stores:\n  queue: {type: http_json, url: "http://127.0.0.1/", '
        'headers: {X-Api-Key: "key ${API_KEY}"}}\n',
        encoding="utf-8",
    )
    queue = load_config(file, {"API_KEY": "hunter2"}).stores.queue
    assert isinstance(queue, HttpJsonSource)
    assert queue.headers["X-Api-Key"].get_secret_value() == "key hunter2"
    assert "hunter2" not in repr(queue)
