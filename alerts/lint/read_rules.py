"""Reads a rule file: what stands in it, every expression parsed."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from orphanwatch.alerts.lint.model import Expression, Group, Role, Rule, RuleFile
from orphanwatch.alerts.lint.tree import parsed
from orphanwatch.alerts.lint.words import TEMPLATE
from orphanwatch.exporter.errors import RuleFileError
from orphanwatch.exporter.instants import Micros, parse_duration

_CHECK_PATH: Final = "name a Prometheus rule file or a PrometheusRule in --rules"
_QUERY: Final = re.compile(r'\bquery\s+("(?:\\.|[^"\\])*"|`[^`]*`)')


class _TextLoader(yaml.SafeLoader):
    """Safe YAML in which every plain word stays text, as it does for Prometheus: ``yes``, ``1``.

    Of a key that stands twice in a mapping Prometheus refuses the file; so does this.
    """

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem="a key stands twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return node


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag.endswith((":merge", ":null"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Lenient(BaseModel):
    """Keys that a check has no use for are left to ``promtool check rules``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, written: object) -> object:
        """Drop keys that nothing stands behind: to Prometheus they are not there."""
        if not isinstance(written, dict):
            return written
        return {key: value for key, value in written.items() if value is not None}


def _length(value: object) -> Micros:
    return parse_duration(str(value)) if value != "0" else Micros(0)


class _WrittenRule(_Lenient):
    alert: str | None = None
    record: str | None = None
    expr: str
    hold: Micros = Field(default=Micros(0), alias="for")
    labels: Mapping[str, str] = Field(default={})
    annotations: Mapping[str, str] = Field(default={})

    _hold = field_validator("hold", mode="before")(_length)


class _WrittenGroup(_Lenient):
    name: str = ""
    interval: Micros | None = None
    labels: Mapping[str, str] = Field(default={})
    rules: tuple[_WrittenRule, ...] = ()

    _interval = field_validator("interval", mode="before")(_length)


class _WrittenFile(_Lenient):
    groups: tuple[_WrittenGroup, ...] | None = None
    spec: "_WrittenFile | None" = None
    """A PrometheusRule of the operator keeps its groups here."""


def read_rule_file(path: Path) -> RuleFile:
    """Return the rules of a file, a Prometheus rule file or a PrometheusRule.

    Raises ``RuleFileError`` that names the file and what can't be read of it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuleFileError(str(path), f"can't be read: {error.strerror}", _CHECK_PATH) from error
    except UnicodeDecodeError as error:
        raise RuleFileError(str(path), "is not UTF-8 text") from error
    return parse_rule_file(str(path), text)


def parse_rule_file(file: str, text: str) -> RuleFile:
    """Return the rules of a text; ``file`` is what findings and errors call it.

    Of several documents all are read. Raises ``RuleFileError`` where the text is no rule file.
    """
    try:
        documents = [one for one in yaml.load_all(text, Loader=_TextLoader) if one is not None]
        written = [_WrittenFile.model_validate(document) for document in documents]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = f": {problem}" if (problem := getattr(error, "problem", None)) else ""
        raise RuleFileError(file, f"is not YAML{where}{problem}") from None
    except RecursionError:
        raise RuleFileError(file, "nests too deeply") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "the document"
        is_mapping = first["type"] not in {"model_type", "model_attributes_type"}
        said = first["msg"].lower() if is_mapping else "is no mapping"
        raise RuleFileError(file, f"{key}: {said}") from None
    found = [one.groups for each in written if (one := each.spec or each).groups is not None]
    if not found:
        raise RuleFileError(file, "holds no groups of rules", _CHECK_PATH)
    groups = [group for some in found for group in some or ()]
    return RuleFile(file=file, groups=tuple(_group(file, group) for group in groups))


def _group(file: str, written: _WrittenGroup) -> Group:
    return Group(
        file=file,
        name=written.name,
        interval=written.interval,
        rules=tuple(_rule(file, rule, written.labels) for rule in written.rules),
    )


def _rule(file: str, written: _WrittenRule, shared: Mapping[str, str]) -> Rule:
    is_alert = written.alert is not None
    name = written.alert or written.record or ""
    place = f"{'alert' if is_alert else 'record'} {name}"
    return Rule(
        name=name,
        is_alert=is_alert,
        expression=_expression(
            file, place, written.expr, Role.ALERT if is_alert else Role.RECORDING, written.hold
        ),
        labels={**shared, **written.labels},
        annotations=written.annotations,
        words=tuple(_words(file, place, written.annotations)),
    )


def _expression(file: str, place: str, text: str, role: Role, hold: Micros) -> Expression:
    return Expression(file=file, place=place, text=text, read=parsed(text), role=role, hold=hold)


def _words(file: str, place: str, annotations: Mapping[str, Any]) -> Iterator[Expression]:
    for name, text in annotations.items():
        for inner in TEMPLATE.findall(text):
            for quoted in _QUERY.findall(inner):
                yield _expression(
                    file, f"{place}, {name}", _unquoted(quoted), Role.WORDS, Micros(0)
                )


def _unquoted(quoted: str) -> str:
    body = quoted[1:-1]
    return body if quoted.startswith("`") else re.sub(r"\\(.)", r"\1", body)
