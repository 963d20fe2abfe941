"""How counters, histograms and keys stand in the rows of the state file."""

import json
import sqlite3
from collections.abc import Iterable, Mapping

from orphanwatch.exporter.board import BUCKET_EDGES, HistogramValue, LabelValues
from orphanwatch.exporter.names import Family

Series = tuple[Family, LabelValues]


def read_counters(connection: sqlite3.Connection) -> dict[tuple[str, LabelValues], float]:
    """Return every counter that has ever moved, by the name of its family and its labels."""
    return {
        (family, tuple(json.loads(labels))): value
        for family, labels, value in connection.execute(
            "SELECT family, labels, value FROM counters ORDER BY family, labels"
        )
    }


def add_to_counters(connection: sqlite3.Connection, added: Mapping[Series, float]) -> None:
    """Add to each series; one that has not moved before starts at 0."""
    connection.executemany(
        "INSERT INTO counters VALUES (?, ?, ?)"
        " ON CONFLICT (family, labels) DO UPDATE SET value = value + excluded.value",
        [(str(family), json.dumps(labels), value) for (family, labels), value in added.items()],
    )


def read_histograms(
    connection: sqlite3.Connection, family: Family
) -> dict[LabelValues, HistogramValue]:
    """Return every histogram of the family that has a sample."""
    return {
        tuple(json.loads(labels)): HistogramValue(
            buckets=tuple(json.loads(buckets)), sum=total, count=count
        )
        for labels, buckets, total, count in connection.execute(
            "SELECT labels, buckets, sum, count FROM histograms WHERE family = ?", (str(family),)
        )
    }


def add_to_histograms(
    connection: sqlite3.Connection, family: Family, samples: Mapping[LabelValues, Iterable[float]]
) -> None:
    """Count samples, in seconds, in the histograms of a family."""
    stored = read_histograms(connection, family) if samples else {}
    for labels, lengths in samples.items():
        value = stored.get(labels, empty_histogram(family))
        for length in lengths:
            value = with_sample(family, value, length)
        connection.execute(
            "INSERT OR REPLACE INTO histograms VALUES (?, ?, ?, ?, ?)",
            (str(family), json.dumps(labels), json.dumps(value.buckets), value.sum, value.count),
        )


def empty_histogram(family: Family) -> HistogramValue:
    """Return a histogram of the family without samples."""
    return HistogramValue(buckets=(0,) * len(BUCKET_EDGES[family]), sum=0.0, count=0)


def with_sample(family: Family, value: HistogramValue, seconds: float) -> HistogramValue:
    """Return a histogram with one more sample."""
    return HistogramValue(
        buckets=tuple(
            count + (seconds <= edge)
            for edge, count in zip(BUCKET_EDGES[family], value.buckets, strict=True)
        ),
        sum=value.sum + seconds,
        count=value.count + 1,
    )


def storable(text: str) -> str:
    """Return text as SQLite can hold it: lone surrogates, and NUL, which it cuts at, spelt out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def key_list(keys: Iterable[str]) -> str:
    """Return keys as the JSON that ``json_each`` unfolds: one parameter, however many they are."""
    return json.dumps([storable(key) for key in keys], ensure_ascii=False)
