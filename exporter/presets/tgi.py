"""Text Generation Inference: the metrics page of its router.

Names read in ``docs/source/reference/metrics.md``. It counts no tokens as they are made: the sum
of its histogram of generated tokens moves when a request ends, so the ledger's shape is ``final``.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_PAGE: Final = "http://127.0.0.1:8080/metrics"

PRESET: Final = Preset(
    name="tgi",
    title="Text Generation Inference: its metrics page",
    stores={
        StoreName.QUEUE: {
            "type": "prometheus",
            "form": "exposition",
            "metrics": {"depth": ["tgi_queue_size"], "in_flight": ["tgi_batch_current_size"]},
        },
        StoreName.LEDGER: {
            "type": "prometheus",
            "form": "exposition",
            "shape": "final",
            "metrics": {
                "tokens": ["tgi_request_generated_tokens_sum"],
                "rows": ["tgi_request_generated_tokens_count"],
            },
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
            "As a ledger it counts tokens as a request ends, and knows no task: take a ledger with "
            "a row for each task if you have one."
        ),
    ),
)
