"""The share of a ``final`` ledger row that lies past a cutoff (contract, section 3)."""

from collections.abc import Iterable
from typing import NamedTuple

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Charges
from orphanwatch.exporter.stores.questions import Windows


class FinalRow(NamedTuple):
    """One row that a ledger wrote at the end of a request."""

    charged_at: Instant
    started_at: Instant | None
    """None where neither the row nor the task says."""
    tokens: float
    prompt_tokens: float
    """Spent at the start."""
    cutoff: Instant = Instant(0)

    def is_past(self, cutoff: Instant) -> bool:
        """Return whether the row proves work past the cutoff."""
        return self.charged_at > cutoff

    def has_unknown_start(self, cutoff: Instant) -> bool:
        """Return whether the row straddles the cutoff by an unknown share."""
        return self.is_past(cutoff) and self.started_at is None

    @property
    def prorated(self) -> float:
        """Decode tokens spread evenly over the row's duration: the part after the cutoff.

        0 where the start is unknown: the share can't be told, the upper bound stands apart.
        """
        if self.started_at is None:
            return 0.0
        decoded = max(0.0, self.tokens - self.prompt_tokens)
        share = (self.charged_at - self.cutoff) / (self.charged_at - self.started_at)
        return decoded * share


def sum_final_rows(
    rows: Iterable[FinalRow], windows: Windows, counting_since: Instant | None
) -> Charges:
    """Return what one task's rows come to, past the cutoff that each of them carries."""
    sums = dict.fromkeys(
        ("charged", "prorated", "straddling", "delta_charged", "delta_prorated",
         "charged_before", "prorated_before", "straddling_before"), 0.0
    )  # fmt: skip
    last: Instant | None = None
    last_orphan: Instant | None = None
    for row in rows:
        last = row.charged_at if last is None else max(last, row.charged_at)
        if not row.is_past(row.cutoff):
            continue
        parts = _parts(row)
        if sum(parts.values()) > 0:
            last_orphan = max(row.charged_at, last_orphan or row.charged_at)
        is_before = counting_since is not None and row.charged_at <= counting_since
        for name, tokens in parts.items():
            sums[name] += tokens
            if name != "straddling" and row.charged_at > windows.delta_start:
                sums[f"delta_{name}"] += tokens
            if is_before:
                sums[f"{name}_before"] += tokens
    return Charges(**sums, last_charge=last, last_orphan_charge=last_orphan)


def _parts(row: FinalRow) -> dict[str, float]:
    if row.started_at is not None and row.started_at > row.cutoff:
        return {"charged": row.tokens}
    return {"prorated": row.prorated, "straddling": row.tokens}
