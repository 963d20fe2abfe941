"""vLLM: the metrics page of its server.

Names as of vLLM 0.4 to 0.2x, read in ``vllm/v1/metrics/loggers.py`` and the design notes on
metrics; gauges are per engine and model, and add up. Metrics are hidden one release after they are
deprecated: the names that follow the first are those that would remain.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_PAGE: Final = "http://127.0.0.1:8000/metrics"

PRESET: Final = Preset(
    name="vllm",
    title="vLLM server: its metrics page",
    stores={
        StoreName.QUEUE: {
            "type": "prometheus",
            "form": "exposition",
            "metrics": {
                # By reason it is the same number in parts, which add up.
                "depth": ["vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"],
                "in_flight": ["vllm:num_requests_running"],
            },
        },
        StoreName.LEDGER: {
            "type": "prometheus",
            "form": "exposition",
            "shape": "increments",
            "metrics": {"tokens": ["vllm:generation_tokens_total"]},
        },
    },
    asks={
        StoreName.QUEUE: {"url": _PAGE, "admission_cap": 64},
        StoreName.LEDGER: {"url": _PAGE},
    },
    notes=(
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
