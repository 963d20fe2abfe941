"""All dashboards of a configuration, as files."""

import json

from orphanwatch.dashboards import cancel_path, detector, overview
from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.model import Model
from orphanwatch.dashboards.v2.translate import translate
from orphanwatch.exporter.config import Config


def build(config: Config, model: Model = Model.CLASSIC) -> dict[str, str]:
    """Return file name and JSON text of every dashboard, sorted, the same bytes each time."""
    documents = {
        overview.FILE: overview.overview(config),
        cancel_path.FILE: cancel_path.cancel_path(config),
        detector.FILE: detector.detector(config),
    }
    return {file: _text(documents[file], model) for file in sorted(documents)}


def _text(document: Document, model: Model) -> str:
    written = translate(document) if model is Model.V2 else document
    return json.dumps(written, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
