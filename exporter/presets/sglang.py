"""SGLang: the metrics page of its server, which ``--enable-metrics`` turns on.

Names read in ``python/sglang/srt/metrics/collector.py`` and the page on production metrics. Each
scheduler may expose the same number once more: copies differ in their rank, and what adds up in
``dp_rank``.
"""

from typing import Any, Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_PAGE: Final = "http://127.0.0.1:30000/metrics"
_COPIES: Final = ("tp_rank", "pp_rank", "moe_ep_rank")


def _series(name: str) -> dict[str, Any]:
    return {"names": [name], "same_over": list(_COPIES)}


PRESET: Final = Preset(
    name="sglang",
    title="SGLang server: its metrics page",
    stores={
        StoreName.QUEUE: {
            "type": "prometheus",
            "form": "exposition",
            "metrics": {
                "depth": _series("sglang:num_queue_reqs"),
                "in_flight": _series("sglang:num_running_reqs"),
            },
        },
        StoreName.LEDGER: {
            "type": "prometheus",
            "form": "exposition",
            "shape": "increments",
            "metrics": {"tokens": _series("sglang:generation_tokens_total")},
        },
    },
    asks={
        StoreName.QUEUE: {"url": _PAGE, "admission_cap": 64},
        StoreName.LEDGER: {"url": _PAGE},
    },
    notes=(
        "Start it with --enable-metrics.",
        (
            "The age of the oldest waiting request is not exposed, and a cap is not either: write "
            "your own as admission_cap."
        ),
        (
            "As a ledger it knows tokens and no task: take a ledger with a row for each task if "
            "you have one."
        ),
    ),
)
