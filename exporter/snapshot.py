"""One evaluation without memory: counters and histograms hold the watched tasks' full sums."""

from collections.abc import Mapping
from typing import Any

from orphanwatch.exporter import names
from orphanwatch.exporter.board import BUCKET_EDGES, HistogramValue, LabelValues, Published
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Evaluation, Orphan
from orphanwatch.exporter.names import Basis, Family
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.state import zero_counters
from orphanwatch.exporter.state_rows import with_sample
from orphanwatch.exporter.version import VERSION

CounterValues = dict[Family, dict[LabelValues, float]]
HistogramValues = dict[Family, dict[LabelValues, HistogramValue]]


def take_snapshot(config: Config, at: Instant) -> Evaluation:
    """Return one evaluation as of an instant, straight from the stores."""
    channels = Channels(config)
    try:
        return evaluate(read_stores(channels, config, at).readings, config)
    finally:
        channels.stop()


def publish_snapshot(evaluation: Evaluation, config: Config) -> Published:
    """Return an evaluation with its full sums, as one page."""
    return Published(
        version=VERSION,
        evaluation=evaluation,
        counters=full_counters(evaluation, config),
        histograms=full_histograms(evaluation, config),
        last_evaluated_at=evaluation.at,
    )


def full_counters(evaluation: Evaluation, config: Config) -> CounterValues:
    """Return every counter that is known, as the watched tasks' full sums."""
    sums: CounterValues = {
        family: dict(values) for family, values in zero_counters(config).counters.items()
    }
    for tally in evaluation.tallies or ():
        for basis, tokens in (
            (Basis.CHARGED, tally.charged),
            (Basis.PRORATED, tally.prorated),
        ):
            sums[names.TOKENS_TOTAL][tally.pool, str(tally.cause), str(basis)] += tokens
        sums[names.STRADDLING_TOKENS_TOTAL][tally.pool,] += tally.straddling
    for row in evaluation.rejected:
        key = (str(row.store), str(row.reason))
        rejected = sums[names.ROWS_REJECTED_TOTAL]
        rejected[key] = rejected.get(key, 0.0) + row.count
    return {family: sums[family] for family in sums if is_known(family, evaluation)}


def full_histograms(evaluation: Evaluation, config: Config) -> HistogramValues:
    """Return the propagation of all settled watched tasks, if it is known."""
    family = names.CANCEL_PROPAGATION_SECONDS
    if not is_known(family, evaluation):
        return {}
    values = dict(zero_counters(config).histograms[family])
    for sample in evaluation.propagations or ():
        values[sample.pool,] = with_sample(family, values[sample.pool,], sample.seconds)
    return {family: values}


def is_known(family: Family, evaluation: Evaluation) -> bool:
    """Return whether the stores that a counter or histogram rests on could be read."""
    if family in {names.TOKENS_TOTAL, names.STRADDLING_TOKENS_TOTAL}:
        return evaluation.tallies is not None
    if family is names.CANCEL_PROPAGATION_SECONDS:
        return evaluation.propagations is not None
    return True


def snapshot_document(evaluation: Evaluation, config: Config) -> dict[str, Any]:
    """Return the JSON document of one evaluation; instants are epoch seconds."""
    return document_of(publish_snapshot(evaluation, config))


def document_of(published: Published) -> dict[str, Any]:
    """Return what is published as the JSON document of ``snapshot`` (contract, section 5).

    Without an evaluation, all but the counters is null or empty.
    """
    evaluation = published.evaluation
    metrics: dict[str, list[dict[str, Any]]] = {}
    if evaluation is not None:
        for family, samples in evaluation.gauges.items():
            metrics[family.name] = [
                {"labels": _labels(family, sample.labels), "value": sample.value}
                for sample in samples
            ]
    for family, values in published.counters.items():
        metrics[family.name] = [
            {"labels": _labels(family, labels), "value": value} for labels, value in values.items()
        ]
    for family, histograms in published.histograms.items():
        metrics |= _histogram_samples(family, histograms)
    metrics[names.BUILD_INFO.name] = [
        {"labels": _labels(names.BUILD_INFO, (published.version,)), "value": 1.0}
    ]
    return {
        "at": None if evaluation is None else seconds(evaluation.at),
        "verdict": None
        if evaluation is None
        else {
            "action": str(evaluation.verdict.action),
            "reasons": list(evaluation.verdict.reasons),
        },
        "metrics": metrics,
        "orphans": [orphan_document(orphan) for orphan in evaluation.orphans] if evaluation else [],
        "notes": list(evaluation.notes) if evaluation else [],
    }


def _labels(family: Family, values: LabelValues) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))


def _histogram_samples(
    family: Family, histograms: Mapping[LabelValues, HistogramValue]
) -> dict[str, list[dict[str, Any]]]:
    bucket, total, number = str(family.bucket), str(family.sum), str(family.count)
    samples: dict[str, list[dict[str, Any]]] = {bucket: [], total: [], number: []}
    for values, histogram in histograms.items():
        labels = _labels(family, values)
        edges = (*(str(float(edge)) for edge in BUCKET_EDGES[family]), "+Inf")
        for edge, count in zip(edges, (*histogram.buckets, histogram.count), strict=True):
            samples[bucket].append({"labels": {**labels, names.LE: edge}, "value": float(count)})
        samples[total].append({"labels": labels, "value": float(histogram.sum)})
        samples[number].append({"labels": labels, "value": float(histogram.count)})
    return samples


def orphan_document(orphan: Orphan) -> dict[str, Any]:
    """Return one orphan as JSON shows it; instants are epoch seconds, unknown is null."""
    return {
        "task_id": orphan.task_id,
        "retry_id": orphan.retry_id,
        "pool": orphan.pool,
        "worker_id": orphan.worker_id,
        "cause": str(orphan.cause),
        "abandoned_at": seconds(orphan.abandoned_at),
        "cutoff_at": seconds(orphan.cutoff_at),
        "orphan_tokens": orphan.orphan_tokens,
        "lease_live": orphan.lease_live,
        "seconds_past_cutoff": orphan.seconds_past_cutoff,
    }
