"""All dashboards of a configuration, as files."""

from orphanwatch.dashboards import cancel_path, detector, overview
from orphanwatch.exporter.config import Config


def build(config: Config) -> dict[str, str]:
    """Return file name and JSON text of every dashboard, sorted, the same bytes each time."""
    files = {
        overview.FILE: overview.overview(config),
        cancel_path.FILE: cancel_path.cancel_path(config),
        detector.FILE: detector.detector(config),
    }
    return dict(sorted(files.items()))
