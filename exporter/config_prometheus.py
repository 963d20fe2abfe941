"""Stores known by metrics: asked of a Prometheus server, or scraped where they are exposed.

``form`` tells the two apart. Either way ``metrics:`` names the series that say something;
``queries:`` are PromQL of the user's own, which go before them.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from orphanwatch.exporter.config_source import HttpAccess, HttpUrl, Source
from orphanwatch.exporter.config_values import Strict

WINDOW: Final = "$window"
"""What stands for the length of a window in a query that counts tokens."""

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _read_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("is no name of a metric; labels are written apart, under labels")
    return text


def _read_label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError("is no name of a label")
    return text


def _read_query(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; write PromQL, or leave the key out")
    return text


def _read_counting_query(text: str) -> str:
    if WINDOW not in text:
        raise ValueError(
            f"needs {WINDOW} where the length of the window goes; "
            f"write for example sum(increase(tokens_total[{WINDOW}]))"
        )
    return text


def _read_list(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        raise ValueError("write a text, or a list of texts")  # noqa: TRY004  (pydantic wants it)
    return value


MetricName = Annotated[str, AfterValidator(_read_name)]
LabelName = Annotated[str, AfterValidator(_read_label)]
Query = Annotated[str, AfterValidator(_read_query)]
CountingQuery = Annotated[str, AfterValidator(_read_counting_query)]
Labels = dict[LabelName, Annotated[tuple[str, ...], BeforeValidator(_read_list)]]
"""What each label must be: one of these."""


class Series(Strict):
    """The series that add up to one number."""

    names: Annotated[tuple[MetricName, ...], BeforeValidator(_read_list)]
    """Whole names; where an engine does not expose one, the next is looked for."""
    labels: Labels = Field(default={})
    same_over: tuple[LabelName, ...] = ()
    """Labels that tell copies of one number apart: of the copies the largest counts, once."""

    @field_validator("names")
    @classmethod
    def _has_a_name(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise ValueError("is empty; write the name of a metric, or leave the key out")
        return names


def _read_series(value: object) -> object:
    """Take a name, or a list of names, for series without further conditions."""
    if isinstance(value, dict | Series):
        return value
    if isinstance(value, str | list | tuple):
        return {"names": value}
    raise ValueError("write the name of a metric, a list of names, or names, labels, same_over")


AnySeries = Annotated[Series, BeforeValidator(_read_series)]

Of = TypeVar("Of")


class QueueMetrics(Strict):
    """Which series say what of a queue: gauges."""

    depth: AnySeries | None = None
    age_seconds: AnySeries | None = None
    in_flight: AnySeries | None = None
    admission_cap: AnySeries | None = None

    def stated(self) -> dict[str, Series]:
        """Return the columns that any series say."""
        return _stated(
            depth=self.depth,
            age_seconds=self.age_seconds,
            in_flight=self.in_flight,
            admission_cap=self.admission_cap,
        )


class QueueQueries(Strict):
    """PromQL that says something of a queue: one number each."""

    depth: Query | None = None
    age_seconds: Query | None = None
    in_flight: Query | None = None
    admission_cap: Query | None = None

    def stated(self) -> dict[str, str]:
        """Return the columns that any query says."""
        return _stated(
            depth=self.depth,
            age_seconds=self.age_seconds,
            in_flight=self.in_flight,
            admission_cap=self.admission_cap,
        )


class LedgerMetrics(Strict):
    """Which series count what was spent: counters."""

    tokens: AnySeries | None = None
    rows: AnySeries | None = None
    """Finished requests, where tokens are counted only as one finishes."""

    def stated(self) -> dict[str, Series]:
        """Return what any series count."""
        return _stated(tokens=self.tokens, rows=self.rows)


class LedgerQueries(Strict):
    """PromQL that says how much a counter has risen over a window: one number each."""

    tokens: CountingQuery | None = None
    rows: CountingQuery | None = None

    def stated(self) -> dict[str, str]:
        """Return what any query counts."""
        return _stated(tokens=self.tokens, rows=self.rows)


def _stated(**settings: Of | None) -> dict[str, Of]:
    return {name: setting for name, setting in settings.items() if setting is not None}


def key_of(name: str, said: str | Series) -> str:
    """Return the key under which something is configured, for errors and notes."""
    return f"{'queries' if isinstance(said, str) else 'metrics'}.{name}"


class PrometheusSource(Source, HttpAccess):
    """A Prometheus server to send PromQL to, or text expositions to scrape."""

    type: Literal["prometheus"]
    form: Literal["promql", "exposition"]
    """Whether ``url`` is a Prometheus server, or a page of metrics."""
    url: Annotated[tuple[HttpUrl, ...], BeforeValidator(_read_list)]
    """Of expositions any number: all of them must answer, or nothing of the sum is known."""
    labels: Labels = Field(default={})
    """What each of the ``metrics`` must carry besides its own labels."""

    @property
    @abstractmethod
    def stated(self) -> Mapping[str, str | Series]:
        """What is said, by PromQL or by series; queries go before metrics."""

    @model_validator(mode="after")
    def _form_has_what_it_needs(self) -> Self:
        if not self.url:
            raise ValueError("url is an empty list; write at least one address")
        if self.form == "promql" and len(self.url) > 1:
            raise ValueError("url: PromQL is sent to one server; write one address")
        if len(set(self.url)) < len(self.url):
            raise ValueError("url: an address stands twice, and would count twice")
        if not self.stated:
            ways = "queries or metrics" if self.form == "promql" else "metrics"
            raise ValueError(f"says nothing yet; write {ways}, or name a preset")
        if self.form == "exposition" and any(isinstance(s, str) for s in self.stated.values()):
            raise ValueError("queries are for form: promql; of an exposition write metrics")
        return self


class PrometheusQueueSource(PrometheusSource):
    """A queue by its metrics."""

    metrics: QueueMetrics = QueueMetrics()
    queries: QueueQueries = QueueQueries()

    @property
    def stated(self) -> Mapping[str, str | Series]:
        """What is said of the queue, by column."""
        return {**self.metrics.stated(), **self.queries.stated()}


class PrometheusLedgerSource(PrometheusSource):
    """A ledger by counters of whole engines."""

    metrics: LedgerMetrics = LedgerMetrics()
    queries: LedgerQueries = LedgerQueries()

    @property
    def stated(self) -> Mapping[str, str | Series]:
        """What is counted: ``tokens``, and ``rows`` where it is."""
        return {**self.metrics.stated(), **self.queries.stated()}

    @model_validator(mode="after")
    def _counts_tokens(self) -> Self:
        if "tokens" not in self.stated:
            raise ValueError("tokens is missing; write the counter of tokens under metrics")
        return self
