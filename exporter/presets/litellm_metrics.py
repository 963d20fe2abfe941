"""LiteLLM proxy: its metrics page, beside or in place of its spend log.

Names read in ``litellm/integrations/prometheus.py`` and the proxy's page on Prometheus. Counters
move when a call ends. Their labels carry keys and users, so each is added up and none is kept.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_PAGE: Final = "http://127.0.0.1:4000/metrics"

PRESET: Final = Preset(
    name="litellm-metrics",
    title="LiteLLM proxy: its metrics page",
    stores={
        StoreName.QUEUE: {
            "type": "prometheus",
            "form": "exposition",
            "metrics": {"in_flight": ["litellm_in_flight_requests"]},
        },
        StoreName.LEDGER: {
            "type": "prometheus",
            "form": "exposition",
            "shape": "final",
            "metrics": {
                # The second of each is an older name.
                "tokens": ["litellm_output_tokens_metric_total", "litellm_output_tokens_total"],
                "rows": [
                    "litellm_proxy_total_requests_metric_total",
                    "litellm_requests_metric_total",
                ],
            },
        },
    },
    asks={StoreName.QUEUE: {"url": _PAGE}, StoreName.LEDGER: {"url": _PAGE}},
    notes=(
        (
            "The proxy needs callbacks: [prometheus] under litellm_settings, and newer ones serve "
            "their page to a key only: write token_file."
        ),
        (
            "It has no queue of its own, so depth stays unknown, and with it calm and split "
            "signal: the engine's preset is the better queue."
        ),
        (
            "As a ledger it counts tokens as a call ends, and knows no task: the preset litellm "
            "reads the spend log, which does."
        ),
    ),
)
