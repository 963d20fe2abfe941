"""Renders the status page. All decisions are made here; the template has loops and words."""

from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import Instant, format_duration
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Action, Family
from orphanwatch.exporter.status import tables
from orphanwatch.exporter.status.cells import age, stamp, value_of
from orphanwatch.exporter.status.charts import Charts, charts_of
from orphanwatch.exporter.status.script import SCRIPT

_NO_EVALUATION: Final = (
    "No current evaluation: nothing is known. Treat it as blind, change nothing."
)
_NEVER: Final = "Nothing has been evaluated since the start."
_MARKS: Final = {Action.SHED: "✖", Action.BLIND: "?", Action.HOLD: "‖", Action.SCALE: "✔"}

# Whose page says what to do about an orphan: the first of these that is above zero.
_PAGES_OF_EVIDENCE: Final[tuple[tuple[Family, str], ...]] = (
    (names.TOKEN_DELTA, "OrphanTokensAccruing"),
    (names.LEASES, "OrphanLeasesAlive"),
    (names.DUPLICATE_IN_FLIGHT, "OrphanDuplicateDecoders"),
)
_BLIND_PAGE: Final = "OrphanDetectorBlind"
_SERVICE_PAGE: Final = "service-page"


class Banner(NamedTuple):
    """The answer: a state that the page is coloured by, the word, the sentence, the reasons."""

    state: str
    mark: str
    word: str
    sentence: str
    reasons: tuple[str, ...]
    page: str
    """The runbook page that says what to do now."""
    at: str


class StatusPage:
    """Renders the page; the template is read once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._template = Environment(
            loader=PackageLoader("orphanwatch.exporter.status"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        ).get_template("status.html.j2")

    def page(self, published: Published, now: Instant) -> bytes:
        """Return the page as UTF-8; ages are told at ``now``."""
        evaluation, config = published.evaluation, self._config
        known = evaluation is not None
        text = self._template.render(
            banner=banner(published, now),
            version=published.version,
            service=config.service,
            script=SCRIPT,
            known=known,
            window=format_duration(config.delta_window),
            charts=self._charts(published, now),
            stores=tuple(tables.stores(evaluation, now)),
            pools=tuple(tables.pools(evaluation, config, published.gate)) if evaluation else (),
            overflow=config.overflow_pools,
            conditions=tuple(tables.conditions(evaluation, config)) if evaluation else (),
            graces=tuple(tables.graces(evaluation, config)) if evaluation else (),
            evidence=tuple(tables.evidence(evaluation)) if evaluation else (),
            orphans=tuple(tables.orphans(evaluation)) if evaluation else (),
            more_orphans=_more(evaluation),
            notes=evaluation.notes if evaluation else (),
        )
        return text.encode(errors="replace")

    def _charts(self, published: Published, now: Instant) -> Charts | None:
        # A picture of what was known once would look like a picture of now.
        if published.evaluation is None:
            return None
        return charts_of(published.history, now, self._config.stale_after)


def banner(published: Published, now: Instant) -> Banner:
    """Return the answer; without a current evaluation that nothing is known."""
    evaluation, last = published.evaluation, published.last_evaluated_at
    if evaluation is None:
        if last is None:
            word, reason = "no evaluation", _NEVER
        else:
            word = "stale"
            reason = f"The last evaluation is {age(now, last)} old, too old to be shown."
        return Banner("none", "∅", word, _NO_EVALUATION, (reason,), _BLIND_PAGE, "")
    verdict = evaluation.verdict
    return Banner(
        verdict.action.value,
        _MARKS[verdict.action],
        verdict.action.value,
        ACTION_WORDS[verdict.action],
        verdict.reasons,
        _page_of(evaluation),
        f"evaluated {age(now, evaluation.at)} ago, at {stamp(evaluation.at)}",
    )


def _page_of(evaluation: Evaluation) -> str:
    action = evaluation.verdict.action
    if action is Action.SHED:
        for family, page in _PAGES_OF_EVIDENCE:
            if value_of(evaluation, family):
                return page
    return _BLIND_PAGE if action is Action.BLIND else _SERVICE_PAGE


def _more(evaluation: Evaluation | None) -> int:
    return max(0, len(evaluation.orphans) - tables.SHOWN_ORPHANS) if evaluation else 0
