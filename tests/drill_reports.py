"""Made-up drill reports: small, and the same at every run."""

import json
from collections.abc import Sequence
from pathlib import Path

from orphanwatch.exporter.drill.faults import HOPS, Fault, Mode
from orphanwatch.exporter.drill.report import (
    DrillReport,
    Outcome,
    TaskReport,
    Telemetry,
    TruthReport,
)

RUN = "orphanwatch-drill-0a1b2c3d-"
KNOBS = {"tasks": 3.0, "deadline": 12.0, "cancel_at": 3.5, "grace_seconds": 1.0}
DIGEST = "9af856923901"


def stayed(number: int = 1) -> TaskReport:
    """Return a task whose client waited for all of its answer."""
    return TaskReport(
        task_id=f"{RUN}task-{number}",
        retry_id=f"{RUN}request-{number}",
        pool="paid",
        cancel_at_s=None,
        cutoff_s=None,
        deadline_s=12.0,
        prompt_tokens=800,
        decode_tokens_at_cancel=None,
        decode_tokens_at_deadline=400,
        in_flight_after_cancel=None,
        shed_reason=None,
        propagation_s=None,
        orphan_tokens=0.0,
        curve=steady(10.0),
    )


def shed(number: int = 2) -> TaskReport:
    """Return a cancelled task that stopped after 0.3 s."""
    return stayed(number).model_copy(
        update={
            "pool": "overflow",
            "cancel_at_s": 3.5,
            "cutoff_s": 4.5,
            "decode_tokens_at_cancel": 140,
            "decode_tokens_at_deadline": 152,
            "in_flight_after_cancel": False,
            "shed_reason": "client_cancel",
            "propagation_s": 0.3,
            "curve": steady(3.8),
        }
    )


def orphan(number: int = 2) -> TaskReport:
    """Return a cancelled task that decoded on."""
    return shed(number).model_copy(
        update={
            "decode_tokens_at_deadline": 480,
            "in_flight_after_cancel": True,
            "shed_reason": None,
            "propagation_s": None,
            "orphan_tokens": 460.0,
            "curve": steady(16.0),
        }
    )


def retry(number: int = 3, retry_id: str = f"{RUN}request-2") -> TaskReport:
    """Return the second attempt of task 2."""
    curve = tuple((4 + at, tokens) for at, tokens in steady(10.0))
    return stayed(number).model_copy(
        update={"pool": "overflow", "retry_id": retry_id, "deadline_s": 16.0, "curve": curve}
    )


def steady(until: float) -> tuple[tuple[float, int], ...]:
    """Return a curve of 40 tokens a second, charged each tenth of it."""
    return tuple((step / 10, 4 * step) for step in range(round(until * 10) + 1))


def baseline() -> DrillReport:
    """Return a drill whose cancels arrived."""
    return DrillReport(
        mode=Mode.SHED,
        fault=None,
        knobs=KNOBS,
        knobs_digest=DIGEST,
        seed=0,
        started_at="2027-01-15T08:00:00Z",
        tasks=(stayed(), shed(), retry()),
        telemetry=Telemetry(
            deadline_slack_ms=3000.0,
            lease_age_ms=3400.0,
            orphan_token_delta=0.0,
            duplicate_in_flight=0.0,
            unmatched_tokens=0.0,
            retries_without_retry_id=0.0,
            blind=False,
        ),
        truth=TruthReport(
            orphan_token_delta=0.0,
            orphan_leases=0,
            duplicate_in_flight=0,
            hop=None,
            disagreements=(),
        ),
        promoted=True,
        verdict=Outcome.SHED,
        hop=None,
    )


def lost_cancel() -> DrillReport:
    """Return a drill whose cancel got lost, read by an exporter that could not see the ledger."""
    report = baseline()
    truth = {"orphan_token_delta": 460.0, "orphan_leases": 1, "hop": HOPS[Fault.DROP_CANCEL]}
    seen = {"orphan_token_delta": None, "deadline_slack_ms": -4000.0, "blind": True}
    return report.model_copy(
        update={
            "mode": Mode.ORPHAN,
            "fault": Fault.DROP_CANCEL,
            "tasks": (stayed(), orphan(), retry(retry_id="")),
            "telemetry": report.telemetry.model_copy(update=seen),
            "truth": report.truth.model_copy(update=truth),
            "promoted": False,
            "verdict": Outcome.ORPHAN_DECODE,
        }
    )


def slower() -> DrillReport:
    """Return a drill with other knobs, whose exporter and record disagree."""
    report = baseline()
    said = ("orphan_token_delta at 5 s: the exporter says 0, the drill 40",)
    return report.model_copy(
        update={
            "knobs": {**KNOBS, "deadline": 24.0},
            "knobs_digest": "0123456789ab",
            "truth": report.truth.model_copy(
                update={"orphan_token_delta": 40.0, "disagreements": said}
            ),
            "promoted": False,
        }
    )


def write(file: Path, *reports: DrillReport) -> Path:
    """Write a file as ``drill run --report`` does: one report, or a list of several."""
    documents: Sequence[object] = [report.model_dump(mode="json") for report in reports]
    file.write_text(json.dumps(documents[0] if len(documents) == 1 else documents), "utf-8")
    return file
