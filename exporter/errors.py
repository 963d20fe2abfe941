"""Every error that reaches a user, as a tree.

::

    OrphanwatchError
    ├── ConfigError          the config file, or a value in it
    ├── StoreError           a store that can't be read now
    │   └── StoreBusyError      its previous query has not come back yet
    ├── StateError           the state file
    ├── PrometheusError      a Prometheus server that can't be asked
    ├── DrillError           a drill that can't be run or cleaned up after, or its report
    ├── MeasurementError     the file of the measured grace
    ├── RuleFileError        a file of alert rules that can't be read
    └── RenderError          an artifact that would be empty or wrong

Messages name the file, key, store or row, and the remedy; never a connection string.
Only the CLI turns them into exit codes.
"""

from orphanwatch.exporter.names import StoreName


class OrphanwatchError(Exception):
    """Anything a user can mend."""


class ConfigError(OrphanwatchError):
    """The config can't be used; ``problems`` holds every one found, each with its key."""

    def __init__(self, file: str, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))
        self.file = file
        self.problems = problems


class StoreError(OrphanwatchError):
    """A store did not answer, or not in a form that can be read."""

    def __init__(self, store: StoreName, problem: str) -> None:
        super().__init__(f"store {store}: {problem}")
        self.store = store
        self.problem = problem


class StoreBusyError(StoreError):
    """The store's previous query is still running: at most one is in flight."""

    def __init__(self, store: StoreName) -> None:
        super().__init__(store, "the previous query has not come back yet")


class StateError(OrphanwatchError):
    """The state file can't be read or written."""


class RenderError(OrphanwatchError):
    """An artifact would be empty, undefined or wrong, so it is not written."""


class RuleFileError(OrphanwatchError):
    """A file of alert rules can't be read, or is none."""

    def __init__(
        self, file: str, problem: str, remedy: str = "`promtool check rules` says more"
    ) -> None:
        super().__init__(f"{file}: {problem}; {remedy}")


class DrillError(OrphanwatchError):
    """A drill can't be run or cleaned up after, or its report can't be read or written."""


class PrometheusError(OrphanwatchError):
    """A Prometheus server can't be asked, or has nothing of the exporter."""


class MeasurementError(OrphanwatchError):
    """The file of the measured grace can't be used; ``reason`` is the sentence after its name."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} {reason}; measure again, with orphanwatch grace --save")
        self.file = file
        self.reason = reason
