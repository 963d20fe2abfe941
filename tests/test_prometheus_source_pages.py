"""Text expositions as a queue and as a ledger: what they say, and what stays unknown."""

from pathlib import Path
from typing import Any

import pytest
from metric_stores import LedgerReader, QueueReader, at
from pages import Pages, Reply, page, serving
from stack_file import ZERO

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.model import QueueSample
from orphanwatch.exporter.names import RejectReason, StoreName

OPENMETRICS = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}


def depth_of(folder: Path, text: str, depth: Any = "waiting", **settings: Any) -> float | None:
    """Return the depth that a page says."""
    with serving({"/metrics": page(text)}) as pages:
        sample = queue(folder, pages, metrics={"depth": depth}, **settings).read()
        return None if sample is None else sample.depth


def queue(folder: Path, *pages: Pages, **settings: Any) -> QueueReader:
    """Return a queue of one page, or of several."""
    urls = [each.url() for each in pages]
    return QueueReader(folder, form="exposition", url=urls if urls[1:] else urls[0], **settings)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        pytest.param("waiting 3\n", 3, id="a number"),
        pytest.param("waiting 0\n", 0, id="zero is zero"),
        pytest.param("# TYPE waiting gauge\nwaiting 2.5\n", 2.5, id="a fraction"),
        pytest.param("  waiting{} 1e1\r\n", 10, id="spaces, no labels, Windows' line ends"),
        pytest.param("", None, id="an empty page"),
        pytest.param("# HELP waiting how many\n", None, id="only its help"),
        pytest.param("running 3\n", None, id="another series"),
        pytest.param("waiting_by_reason 3\nawaiting 4\n", None, id="names that only look alike"),
        pytest.param("waiting NaN\n", None, id="no number"),
        pytest.param("waiting +Inf\n", None, id="no finite number"),
        pytest.param('waiting{e="0"} 2\nwaiting{e="1"} 3\n', 5, id="series add up"),
        pytest.param('waiting{e="0"} 2\nwaiting{e="1"} NaN\n', None, id="one of them is no number"),
        pytest.param("waiting 3\nrunning what?\n", 3, id="a broken line of another series"),
        pytest.param('waiting{a="}\\"# x"} 3\n', 3, id="signs within a label"),
    ],
)
def test_an_absent_series_is_unknown(tmp_path: Path, text: str, depth: float | None) -> None:
    """Unknown is never 0, and never a part of a sum."""
    assert depth_of(tmp_path, text) == depth


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        pytest.param("new 3\nold 4\n", 3, id="the first that is there counts alone"),
        pytest.param("old 4\n", 4, id="the next where the first is absent"),
        pytest.param("older 5\n", 5, id="and so on"),
        pytest.param("oldest 6\n", None, id="no other"),
        pytest.param("new NaN\nold 4\n", None, id="the first is there, and is no number"),
    ],
)
def test_names_are_looked_for_in_their_order(
    tmp_path: Path, text: str, depth: float | None
) -> None:
    """An engine that renames a metric is read under its older and its newer name."""
    assert depth_of(tmp_path, text, ["new", "old", "older"]) == depth


RANKS = """\
waiting{model="a",dp="0",tp="0"} 4
waiting{model="a",dp="0",tp="1"} 3
waiting{model="a",dp="1",tp="0"} 2
waiting{model="b",dp="0",tp="0"} 50
"""


@pytest.mark.parametrize(
    ("series", "labels", "depth"),
    [
        pytest.param({}, {}, 59, id="all of them"),
        pytest.param({"same_over": ["tp"]}, {}, 56, id="of copies the largest, once"),
        pytest.param({"labels": {"model": "a"}}, {}, 9, id="one model"),
        pytest.param({"labels": {"model": ["a", "b"]}}, {}, 59, id="one of several models"),
        pytest.param({"labels": {"zone": ""}}, {}, 59, id="a label that is not there is empty"),
        pytest.param({"labels": {"model": "c"}}, {}, None, id="a model that is not there"),
        pytest.param({"same_over": ["tp"]}, {"model": "a"}, 6, id="labels for all series"),
        pytest.param({"labels": {"dp": "1"}}, {"model": "a"}, 2, id="labels of both kinds"),
    ],
)
def test_series_are_chosen_by_their_labels(
    tmp_path: Path, series: dict[str, Any], labels: dict[str, Any], depth: float | None
) -> None:
    """Those of a store hold for each of its series."""
    assert depth_of(tmp_path, RANKS, {"names": ["waiting"], **series}, labels=labels) == depth


def test_every_column_can_be_told(tmp_path: Path) -> None:
    """Each by a series of its own; what is not configured stays unknown."""
    text = "waiting 3\noldest_seconds 7.5\nrunning 4\nlimit 64\n"
    names = {"age_seconds": "oldest_seconds", "in_flight": "running", "admission_cap": "limit"}
    with serving({"/metrics": page(text)}) as pages:
        whole = queue(tmp_path, pages, metrics={"depth": "waiting", **names})
        assert whole.read() == QueueSample(at(0), 3, 7.5, 4, 64)
        part = queue(tmp_path, pages, metrics={"depth": "waiting", "in_flight": "unheard_of"})
        assert part.read() == QueueSample(at(0), 3, None, None, None)
        assert part.inspection is not None
        assert part.inspection.unstated == ("age_seconds", "in_flight", "admission_cap")
        assert part.inspection.notes == ("metrics.in_flight finds nothing; check names and labels",)


def test_a_line_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    """It costs the sum that it belongs to, and nothing else."""
    text = 'waiting{e="0"} 2\nwaiting{e="1"} many\nrunning 4\n'
    with serving({"/metrics": page(text)}) as pages:
        reader = queue(tmp_path, pages, metrics={"depth": "waiting", "in_flight": "running"})
        assert reader.read() == QueueSample(at(0), None, None, 4, None)
        [row] = reader.rejected
        assert (row.store, row.reason) == (StoreName.QUEUE, RejectReason.INVALID_NUMBER)
        assert row.key == f'127.0.0.1:{pages.port} waiting{{e="1"}} many'


def test_several_pages_add_up_or_are_unknown(tmp_path: Path) -> None:
    """A page that is silent on its part leaves the sum unknown; one that is gone is an error."""
    with serving({"/metrics": page("waiting 3\n")}) as one, serving() as two:
        reader = queue(tmp_path, one, two, metrics={"depth": "waiting"})
        two.replies["/metrics"] = page("waiting 4\n")
        assert reader.read() == QueueSample(at(0), 7, None, None, None)
        two.replies["/metrics"] = page("running 4\n")
        assert reader.read() is None
        del two.replies["/metrics"]
        with pytest.raises(StoreError, match=f"127.0.0.1:{two.port} has nothing at"):
            reader.read()


def test_each_page_falls_back_by_itself(tmp_path: Path) -> None:
    """While engines are upgraded one by one, some have the older name."""
    with (
        serving({"/metrics": page("new 3\n")}) as one,
        serving({"/metrics": page("old 4\n")}) as two,
    ):
        reader = queue(tmp_path, one, two, metrics={"depth": ["new", "old"]})
        assert reader.read() == QueueSample(at(0), 7, None, None, None)


@pytest.mark.parametrize(
    ("scraped", "taken"),
    [
        pytest.param(0.02, 0.02, id="a moment after the reading began"),
        pytest.param(3600, None, id="an hour after the instant that was asked for"),
        pytest.param(-3600, None, id="an hour before it"),
    ],
)
def test_a_page_says_nothing_of_another_time(
    tmp_path: Path, scraped: float, taken: float | None
) -> None:
    """``snapshot --at`` of the past must not show what is now."""
    with serving({"/metrics": page("waiting 3\n")}) as pages:
        sample = queue(tmp_path, pages, metrics={"depth": "waiting"}).read(0, scraped=scraped)
        assert (sample.sampled_at if sample else None) == (None if taken is None else at(taken))


def test_stamps_of_a_federated_page_count(tmp_path: Path) -> None:
    """A sample is as old as its own stamp; in OpenMetrics, where exemplars follow, it has none."""
    stamped = f"waiting 3 {(ZERO - 45) * 1000}\nrunning 4\n"
    metrics = {"depth": "waiting", "in_flight": "running"}
    with serving({"/metrics": page(stamped)}) as pages:
        sample = queue(tmp_path, pages, metrics=metrics).read()
        assert sample == QueueSample(at(-45), 3, None, 4, None)
    body = b'waiting 3 # {trace_id="x"} 1.0 5\nrunning{a="b"} 4 # {trace_id="x"} 1.0 5\n# EOF\n'
    with serving({"/metrics": Reply(body=body, headers=OPENMETRICS)}) as pages:
        sample = queue(tmp_path, pages, metrics=metrics).read()
        assert sample == QueueSample(at(0), 3, None, 4, None)


def ledger(folder: Path, *pages: Pages, **settings: Any) -> LedgerReader:
    """Return a ledger of one page, or of several, that counts ``made_total``."""
    urls = [each.url() for each in pages]
    return LedgerReader(
        folder, form="exposition", url=urls, **{"metrics": {"tokens": "made_total"}, **settings}
    )


def show(pages: Pages, *counters: str) -> None:
    """Let a page show counters."""
    pages.replies["/metrics"] = page("".join(f"{counter}\n" for counter in counters))


def test_spend_is_known_once_the_readings_reach_over_the_window(tmp_path: Path) -> None:
    """The first reading says nothing; the spend window is 60 s, the baseline 300 s before it."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        spend, baseline = {}, {}
        for offset in range(0, 421, 5):
            show(pages, f"made_total {1000 + 10 * min(offset, 360) + 30 * max(0, offset - 360)}")
            window = reader.read(offset)
            assert (window.is_keyed, window.by_key, window.spend_rows) == (False, {}, None)
            spend[offset], baseline[offset] = window.spend_tokens, window.baseline_tokens
    assert [spend[offset] for offset in (0, 55, 60, 360, 420)] == [None, None, 600, 600, 1800]
    assert [baseline[offset] for offset in (60, 355, 360, 420)] == [None, None, 3000, 3000]


def test_windows_begin_between_two_readings(tmp_path: Path) -> None:
    """Between two readings a counter is taken to rise evenly; a late ledger's windows end then."""
    with serving() as pages:
        reader = ledger(tmp_path, pages, lag="7s")
        for offset in range(0, 81, 5):
            show(pages, f"made_total {10 * offset}")
            window = reader.read(offset + 0.25)
        # (80.25 - 7 - 60, 80.25 - 7], at 10 tokens a second
        assert window.spend_tokens == pytest.approx(600)


@pytest.mark.parametrize(
    ("shown", "spend"),
    [
        pytest.param([["a 100"], ["a 160"], ["a 20"]], 80, id="a counter begins again at 0"),
        pytest.param([["a 100"], ["a 160"], []], None, id="it is gone: spend is unknown now"),
        pytest.param([["a 100"], [], ["a 160"]], 60, id="it is back: nothing is lost"),
        pytest.param(
            [["a 100"], ["a 110", 'a{m="new"} 5000'], ["a 120", 'a{m="new"} 5001']],
            5021,
            id="a label set that is new began at 0 since the last reading",
        ),
        pytest.param([["b 100"], ["a 5000"], ["a 5001"]], 1, id="likewise one under another name"),
        pytest.param([["a 100"], ["a NaN"], ["a 160"]], 60, id="no number is no reading"),
        pytest.param([["a 100"], ["a 100"], ["a 100"]], 0, id="nothing moved: zero"),
        pytest.param(
            [
                ['a{tp="0"} 100', 'a{tp="1"} 90'],
                ['a{tp="0"} 150', 'a{tp="1"} 140'],
                ['a{tp="0"} 160', 'a{tp="1"} 160'],
            ],
            60,
            id="copies count once",
        ),
    ],
)
def test_counters_add_up_from_reading_to_reading(
    tmp_path: Path, shown: list[list[str]], spend: float | None
) -> None:
    """Three readings, 30 s apart: the last tells of all of them."""
    tokens = {"names": ["a", "b"], "same_over": ["tp"]}
    with serving() as pages:
        reader = ledger(tmp_path, pages, metrics={"tokens": tokens})
        for number, counters in enumerate(shown):
            show(pages, *counters)
            window = reader.read(30 * number)
    assert window.spend_tokens == spend


def test_keys_that_are_charged_for_the_first_time_are_spent(tmp_path: Path) -> None:
    """A program that counts by key and user shows each from its first tokens on."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        shown = ['made_total{key="k0"} 70000']
        for number in range(13):
            if 3 <= number < 9:
                shown.append(f'made_total{{key="k{number}"}} 1000')
            show(pages, *shown)
            window = reader.read(5 * number)
    assert window.spend_tokens == 6000


def test_a_label_set_that_is_new_after_a_break_is_of_unknown_age(tmp_path: Path) -> None:
    """For longer than the window nobody looked, and it may have been there before the baseline."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        for offset in (*range(0, 151, 5), *range(225, 421, 5)):
            new = ['made_total{key="new"} 5000'] if offset > 150 else []
            show(pages, 'made_total{key="old"} 100', *new)
            window = reader.read(offset)
    assert window.baseline_tokens == 0


def test_what_a_federated_page_shows_anew_is_of_unknown_age(tmp_path: Path) -> None:
    """It passes on what others said, and may just have found one that counts since last week."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        for offset in range(0, 91, 5):
            stamp = 1000 * (ZERO + offset)
            new = [f'made_total{{key="new"}} 5000 {stamp}'] if offset > 60 else []
            show(pages, f'made_total{{key="old"}} 100 {stamp}', *new)
            window = reader.read(offset)
    assert window.spend_tokens == 0


def test_a_label_set_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    """However long it was not shown: it did not begin again."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        for offset in range(0, 901, 5):
            away = ['made_total{key="away"} 5000'] if offset < 30 else []
            back = ['made_total{key="away"} 5007'] if offset > 870 else []
            show(pages, 'made_total{key="here"} 100', *away, *back)
            window = reader.read(offset)
    assert window.spend_tokens == 7


def test_a_long_silence_is_not_spread(tmp_path: Path) -> None:
    """What rose in a gap longer than the window can't be placed before or after its edge."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        spend = {}
        for offset in (0, 30, 60, 180, 210, 240):
            show(pages, f"made_total {10 * offset}")
            spend[offset] = reader.read(offset).spend_tokens
    assert spend == {0: None, 30: None, 60: 600, 180: None, 210: None, 240: 600}


def test_a_failed_reading_loses_nothing(tmp_path: Path) -> None:
    """One engine of two is away for a reading: an error then, and the whole sum after it."""
    with serving() as one, serving() as two:
        reader = ledger(tmp_path, one, two)
        for offset in (0, 20, 40, 60):
            show(one, f"made_total {10 * offset}")
            show(two, f"made_total {100 * offset}")
            if offset == 40:
                del two.replies["/metrics"]
                with pytest.raises(StoreError, match="has nothing at the url's path"):
                    reader.read(offset)
            else:
                window = reader.read(offset)
    assert window.spend_tokens == 6600


def test_a_clock_that_is_set_back_starts_anew(tmp_path: Path) -> None:
    """Points of a future that did not come are forgotten."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        spend: list[float | None] = []
        for offset in (0, 30, 60, 20, 50, 80):
            show(pages, f"made_total {10 * len(spend)}")
            spend.append(reader.read(offset).spend_tokens)
    assert spend == [None, None, 20, None, None, 20]


def test_finished_requests_are_the_rows_of_a_final_ledger(tmp_path: Path) -> None:
    """They decide whether the window holds enough to tell a rise."""
    metrics = {"tokens": "made_sum", "rows": "made_count"}
    with serving() as pages:
        reader = ledger(tmp_path, pages, shape="final", metrics=metrics)
        for number in range(3):
            show(pages, f"made_sum {1000 * number}", f"made_count {15 * number}")
            window = reader.read(30 * number)
    assert (window.spend_tokens, window.spend_rows) == (2000, 30)


def test_a_counter_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    """As a charge of the ledger that is no number."""
    with serving() as pages:
        reader = ledger(tmp_path, pages)
        show(pages, "made_total lots")
        assert reader.read().spend_tokens is None
        [row] = reader.rejected
        assert (row.store, row.reason) == (StoreName.LEDGER, RejectReason.INVALID_TOKENS)
