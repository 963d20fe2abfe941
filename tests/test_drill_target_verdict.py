"""What a drill on a real gateway proves, and what it doesn't: the verdict as a table."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from drills import write_stack

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_drill import DrillTarget
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.report import Outcome
from orphanwatch.exporter.drill.target_client import Told
from orphanwatch.exporter.drill.target_rehearsed import Rehearsed, orphan_tokens
from orphanwatch.exporter.drill.target_requests import Ask, plan_of
from orphanwatch.exporter.drill.target_samples import keep_target_samples
from orphanwatch.exporter.drill.target_verdict import Judgement, judge
from orphanwatch.exporter.drill.target_watch import Seen, TargetLook, tokens_by_exporter
from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.model import (
    Charges,
    Evaluation,
    Lease,
    Propagation,
    Tally,
    Task,
    Verdict,
)
from orphanwatch.exporter.names import Action, Cause, StoreName

PLAN = plan_of(DrillTarget.model_validate({"url": "http://gw/v1", "model": "m"}), Knobs())
FIRST, SECOND, RETRY = PLAN.asks


def at(seconds: float) -> Instant:
    """Return an instant so long after the requests were sent; clients leave at 3.5."""
    return Instant(1_800_000_000_000_000 + micros(seconds))


@dataclass(frozen=True)
class Story:
    """What the clients were told, and what the stores showed 20 s later, all being well."""

    told: dict[Ask, Told]
    look: TargetLook

    def seen(self, ask: Ask, **changes: Any) -> "Story":
        """Return the story with another sight of one attempt."""
        seen = {**self.look.seen, ask: replace(self.look.seen[ask], **changes)}
        return replace(self, look=replace(self.look, seen=seen))

    def row(self, ask: Ask, **changes: Any) -> "Story":
        """Return the story with another row of the gateway's."""
        task = self.look.seen[ask].task
        assert task is not None
        return self.seen(ask, task=task._replace(**changes))

    def lease(self, ask: Ask, *, live: bool = False, **changes: Any) -> "Story":
        """Return the story with another lease."""
        lease = self.look.seen[ask].leases[0]._replace(**changes)
        return self.seen(ask, leases=(lease,), live=(lease,) if live else ())

    def judged(self, config: Config) -> Judgement:
        """Return the verdict."""
        rehearsed = Rehearsed(plan=PLAN, told=self.told, looks=[self.look])
        return judge(rehearsed, config, micros(60))


def whole() -> Story:
    """Return the story in which every cancel arrived within 0.2 s."""
    told = {ask: heard(ask) for ask in PLAN.asks}
    look = TargetLook(
        at=at(23.5),
        evaluation=cast("Evaluation", None),  # the verdict is the drill's own
        blind=(),
        beats=True,
        skews={},
        seen={ask: shown(ask) for ask in PLAN.asks},
    )
    return Story(told, look)


def heard(ask: Ask) -> Told:
    """Return what one client was told."""
    return Told(
        sent_at=at(0 if ask.leaves else 4),
        first_at=at(0.5 if ask.leaves else 4.5),
        events=120 if ask.leaves else 400,
        left_at=at(3.5) if ask.leaves else None,
        ended_at=None if ask.leaves else at(14.5),
        answered_id=None,
    )


def shown(ask: Ask) -> Seen:
    """Return what the stores showed of it."""
    start, end = (0.0, 3.7) if ask.leaves else (4.0, 14.5)
    lease = Lease(ask.task_id, f"w-{ask.task_id}", "overflow", at(start), at(end), at(end))
    return Seen(
        task=Task(
            task_id=ask.task_id,
            retry_id=ask.retry_id,
            attempt=ask.attempt,
            pool="overflow",
            submitted_at=at(start),
            deadline_at=None,
            cancelled_at=at(3.5) if ask.leaves else None,
            finished_at=None if ask.leaves else at(14.5),
            ok=True,
            cancellable=True,
        ),
        leases=(lease,),
        live=(),
        cutoff=at(4.5) if ask.leaves else None,
        charges=Charges(last_charge=at(end)),
        exporter_tokens=0.0,
        propagation=(
            Propagation(ask.task_id, "overflow", at(3.5), at(3.7), 0.2) if ask.leaves else None
        ),
    )


def also_held(story: Story) -> Story:
    """Return the story with a second worker on the retry."""
    retry = story.look.seen[RETRY]
    both = tuple(
        retry.leases[0]._replace(worker_id=name, released_at=None, acquired_at=at(start))
        for name, start in (("w-1", 4.0), ("w-2", 5.0))
    )
    return story.seen(RETRY, leases=both, live=both)


def ageless(story: Story) -> Story:
    """Return the story with two workers on the retry whose leases do not say since when."""
    held = also_held(story)
    unknown = tuple(it._replace(acquired_at=None) for it in held.look.seen[RETRY].leases)
    return held.seen(RETRY, leases=unknown, live=unknown)


def behind(story: Story, *stores: StoreName) -> Story:
    """Return the story with work until 12 s, by stores whose clocks are an hour late."""
    for ask in (FIRST, SECOND):
        if StoreName.LEASES in stores:
            story = story.lease(ask, acquired_at=at(-3600), released_at=at(-3588))
        if StoreName.LEDGER in stores:
            story = story.seen(ask, charges=Charges(last_charge=at(-3588)))
    return story


def skewed(story: Story, skew: float) -> Story:
    """Return the story with a ledger that says what its clock shows."""
    return replace(story, look=replace(story.look, skews={StoreName.LEDGER: skew}))


def no_retry(story: Story) -> Story:
    """Return the story with a retry that no store shows."""
    return story.seen(RETRY, task=None, leases=(), charges=None)


def beatless(story: Story) -> Story:
    """Return the story with a lease that is held on, in a store that states no heartbeats."""
    held = story.lease(FIRST, live=True, heartbeat_at=None, released_at=None)
    return replace(held, look=replace(held.look, beats=False))


def blind(story: Story) -> Story:
    """Return the story with one store that could not be read."""
    return replace(story, look=replace(story.look, blind=("store leases is gone",)))


def slow(story: Story) -> Story:
    """Return the story with an answer that was nearly over."""
    return replace(story, told={**story.told, FIRST: replace(story.told[FIRST], events=390)})


def late(story: Story) -> Story:
    """Return the story with a gateway that noticed late, and a worker that went on until then."""
    told = story.row(FIRST, cancelled_at=at(9))
    return told.seen(FIRST, charges=Charges(charged=180.0, last_charge=at(9)))


def tally(task_id: str, charged: float, prorated: float) -> Tally:
    """Return the exporter's count for one orphan."""
    return Tally(
        task_id, None, "overflow", Cause.CLIENT_CANCEL, charged, prorated, 0.0, 0.0, 0.0, 0.0
    )


def evaluated(tallies: tuple[Tally, ...] | None) -> Evaluation:
    """Return an evaluation that knows these tallies, and nothing else."""
    return Evaluation(
        at=at(0),
        gauges={},
        verdict=Verdict(action=Action.BLIND, reasons=()),
        orphans=(),
        stores={},
        tallies=tallies,
        propagations=None,
        open_tasks=(),
        rejected=(),
        last_evidence=None,
    )


Change = Callable[[Story], Story]


@pytest.mark.parametrize(
    ("change", "verdict", "promoted", "said"),
    [
        pytest.param(lambda story: story, Outcome.SHED, True, "", id="all is well"),
        pytest.param(
            lambda story: story.seen(FIRST, charges=Charges(charged=40.0, last_charge=at(6))),
            Outcome.CANCEL_MISSED, False, "40 tokens were charged a grace or more after",
            id="a charge after the cutoff",
        ),
        pytest.param(
            lambda story: story.seen(FIRST, charges=Charges(prorated=12.5, last_charge=at(6))),
            Outcome.CANCEL_MISSED, False, "12.5 tokens were charged",
            id="a row of a final ledger that straddles the cutoff",
        ),
        pytest.param(
            lambda story: story.seen(SECOND, exporter_tokens=7.0),
            Outcome.CANCEL_MISSED, False, "7 tokens were charged",
            id="orphan tokens that the exporter alone sees",
        ),
        pytest.param(late, Outcome.CANCEL_MISSED, False, "the gateway took 5.5 s to notice",
            id="a gateway that notices late"),
        pytest.param(
            lambda story: story.row(FIRST, cancelled_at=None).lease(FIRST, released_at=at(10)),
            Outcome.CANCEL_MISSED, False, "shows no cancel, as if its client waited",
            id="a gateway that never notices, and a worker that goes on",
        ),
        pytest.param(
            lambda story: story.lease(FIRST, released_at=at(7.5)),
            Outcome.CANCEL_MISSED, False, "still held it 3.0 s later than that",
            id="a lease that is let go after the cutoff",
        ),
        pytest.param(
            lambda story: story.lease(FIRST, live=True, heartbeat_at=at(23), released_at=None),
            Outcome.CANCEL_MISSED, False, "still held it 18.5 s later",
            id="a heartbeat after the cutoff",
        ),
        pytest.param(beatless, Outcome.CANCEL_MISSED, False, "still held it 19.0 s later",
            id="a lease that is held on without heartbeats"),
        pytest.param(
            lambda story: story.lease(FIRST, live=True, heartbeat_at=at(3), released_at=None),
            None, False, "its lease is still not released, and its worker silent",
            id="a worker that fell silent before the cutoff",
        ),
        pytest.param(
            lambda story: story.row(FIRST, cancelled_at=None),
            None, False, "the exporter takes its client for one that waits",
            id="a gateway that never notices, and a worker that stops",
        ),
        pytest.param(
            lambda story: story.seen(FIRST, charges=None),
            None, False, "the ledger has not charged it within 1m",
            id="a ledger that does not charge what was cancelled",
        ),
        pytest.param(
            lambda story: story.seen(FIRST, leases=()),
            None, False, "no lease of it was seen",
            id="a lease that nobody saw",
        ),
        pytest.param(
            lambda story: replace(story, look=replace(story.look, at=at(9))),
            None, False, "its tokens had not frozen for long enough",
            id="too short a look",
        ),
        pytest.param(blind, None, False, "store leases is gone", id="a blind store"),
        pytest.param(slow, None, False, "would have ended by itself", id="an answer nearly over"),
        pytest.param(
            lambda story: story.row(RETRY, retry_id=None),
            Outcome.SHED, False, "without the retry id that it was sent with in X-Retry-Id",
            id="a retry whose id got lost",
        ),
        pytest.param(
            lambda story: story.row(RETRY, retry_id=None, attempt=1),
            Outcome.SHED, True, "neither retry id nor attempt",
            id="a store that can't tell a retry",
        ),
        pytest.param(also_held, Outcome.SHED, False, "decoded by 2 workers at a time",
            id="a request with two decoders"),
        pytest.param(ageless, Outcome.SHED, False, "decoded by 2 workers at a time",
            id="two decoders that do not say since when"),
        pytest.param(
            lambda story: behind(story, StoreName.LEASES, StoreName.LEDGER),
            None, False, f"acquired_at of {FIRST.task_id} lies 3600.0 s before it was sent",
            id="leases and a ledger that are an hour behind"),
        pytest.param(
            lambda story: behind(story, StoreName.LEDGER),
            None, False, f"store ledger: charged_at of {FIRST.task_id} lies 3588.0 s before",
            id="a ledger that is an hour behind"),
        pytest.param(
            lambda story: story.lease(FIRST, acquired_at=None, released_at=at(-3588)),
            None, False, "store leases: released_at of",
            id="a lease that was let go before it was asked for"),
        pytest.param(
            lambda story: story.row(SECOND, submitted_at=at(-2.5)),
            None, False, "store gateway: submitted_at of",
            id="a submission that is early by more than a grace and a second"),
        pytest.param(
            lambda story: story.row(SECOND, submitted_at=at(-2)),
            Outcome.SHED, True, "",
            id="a submission that is early by a grace and a second"),
        pytest.param(
            lambda story: story.row(SECOND, cancelled_at=at(1.4)),
            None, False, "lies 2.1 s before its client left",
            id="a cancel that is early by more than a grace and a second"),
        pytest.param(lambda story: skewed(story, -2.1), None, False, "its clock is -2.1 s off ours",
            id="a store that says that it is behind"),
        pytest.param(lambda story: skewed(story, -2.0), Outcome.SHED, True, "",
            id="a store that says that it is behind by a little"),
        pytest.param(no_retry, None, False, "store gateway shows nothing of the retry",
            id="a retry that is in no store"),
        pytest.param(lambda story: story.seen(RETRY, charges=None),
            None, False, "store ledger shows nothing of the retry",
            id="a retry that was never charged"),
    ],
)  # fmt: skip
def test_a_zero_is_promoted_only_where_it_is_a_proof(
    tmp_path: Path, change: Change, verdict: Outcome | None, said: str, *, promoted: bool
) -> None:
    """Each way in which a drill can end, and the sentence that says why."""
    found = change(whole()).judged(write_stack(tmp_path))

    sentences = (*found.findings, *found.doubts, *found.notes)
    assert (found.verdict, found.promoted) == (verdict, promoted), sentences
    assert any(said in sentence for sentence in sentences) or not (said or sentences)


def test_a_ledger_that_charges_at_the_end_is_awaited(tmp_path: Path) -> None:
    """Its row settles it; until then its silence is no proof."""
    config = write_stack(tmp_path, "final")
    soon = whole()
    soon = replace(soon, look=replace(soon.look, at=at(5)))
    assert soon.judged(config).verdict is Outcome.SHED
    assert soon.seen(FIRST, charges=None).judged(config).verdict is None


def test_tokens_that_nobody_could_count_are_not_zero() -> None:
    """While gateway or ledger can't be read, the exporter has no tallies at all."""
    unknown = whole().seen(FIRST, charges=None, exporter_tokens=None)
    rehearsed = Rehearsed(plan=PLAN, told=unknown.told, looks=[unknown.look])
    assert orphan_tokens(rehearsed, FIRST) is None
    assert orphan_tokens(rehearsed, SECOND) == 0


@pytest.mark.parametrize(
    ("tallies", "tokens"),
    [
        pytest.param(None, None, id="a ledger that could not be read"),
        pytest.param((), 0, id="a task that is no orphan"),
        pytest.param((tally("t-1", 3, 4),), 7, id="an orphan"),
        pytest.param((tally("t-2", 3, 4),), 0, id="another task's tokens"),
    ],
)
def test_the_exporters_tokens_of_a_task_are_unknown_without_tallies(
    tallies: tuple[Tally, ...] | None, tokens: float | None
) -> None:
    """Zero is what it knows to be none."""
    assert tokens_by_exporter(evaluated(tallies), "t-1") == tokens


def kept(folder: Path) -> list[tuple[str, str, float, int, int, str]]:
    """Return the samples in the state file."""
    with closing(sqlite3.connect(folder / "watch.state")) as state:
        return state.execute(
            "SELECT task_id, pool, seconds, stopped_at, counted, source FROM propagations"
            " ORDER BY task_id"
        ).fetchall()


def keep(story: Story, folder: Path) -> str:
    """Keep the samples of a story in ``watch.state``; return what is said of them."""
    config = write_stack(folder).model_copy(update={"state_file": str(folder / "watch.state")})
    rehearsed = Rehearsed(plan=PLAN, told=story.told, looks=[story.look])
    return keep_target_samples(rehearsed, judge(rehearsed, config, micros(60)), config)


def test_the_settled_samples_of_a_real_gateway_stand_in_the_state_file(tmp_path: Path) -> None:
    """Marked, counted in no metric, under the ids of the store."""
    assert keep(whole(), tmp_path) == (
        "2 samples of propagation kept in the state file, marked drill:target"
    )
    assert kept(tmp_path) == [
        (ask.task_id, "overflow", 0.2, at(3.5), 0, "drill:target") for ask in (FIRST, SECOND)
    ]


def test_a_sample_that_is_still_open_is_said_to_have_no_place(tmp_path: Path) -> None:
    """The table of samples holds lengths that are over."""
    story = whole().seen(FIRST, propagation=None)
    assert keep(story, tmp_path) == (
        "1 samples of propagation kept in the state file, marked drill:target; "
        "1 more open or unknown, which it can't hold"
    )
    assert [task_id for task_id, *_ in kept(tmp_path)] == [SECOND.task_id]


def test_a_doubtful_drill_keeps_no_sample(tmp_path: Path) -> None:
    """Clocks that disagree measure nothing."""
    story = behind(whole(), StoreName.LEASES, StoreName.LEDGER)
    assert "the drill left doubts" in keep(story, tmp_path)
    assert not (tmp_path / "watch.state").exists()
