"""``drill report``: drills side by side, on a terminal and on a page, whatever the files hold."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cli_session
import drill_reports as made_up
import golden_pages
import pytest
from drills import drill, write_stack
from hypothesis import given
from hypothesis import strategies as st

from orphanwatch.exporter.drill import curves
from orphanwatch.exporter.drill.compare import table, warning
from orphanwatch.exporter.drill.curves import Curve, Scale
from orphanwatch.exporter.drill.faults import Fault, Hop
from orphanwatch.exporter.drill.page import page
from orphanwatch.exporter.drill.report import DrillReport, TaskReport
from orphanwatch.exporter.drill.report_file import Filed, read_reports
from orphanwatch.exporter.version import VERSION

EVIL = "</bdi></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\x1b[2J\x9b31m\n"


class Reader(HTMLParser):
    """Reads a page: its tags, balanced, and what it would load or lead to."""

    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.links: list[str | None] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag and its attributes."""
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.links += [value for name, value in attrs if name in {"href", "src", "xlink:href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself, as shapes do."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes the last one."""
        assert self.open.pop() == tag


def filed(*reports: DrillReport) -> list[Filed]:
    """Return reports of files that are told apart."""
    return [Filed(f"{number}.json", report) for number, report in enumerate(reports, 1)]


def shown(folder: Path, *arguments: str) -> cli_session.Answer:
    """Return the answer of the command on a terminal of 100 columns."""
    return cli_session.run(folder, "drill", "report", *arguments, COLUMNS="100")


def test_the_table_reads_as_committed(tmp_path: Path) -> None:
    """A list in one file and a report in another, of other knobs; the page is named last."""
    made_up.write(tmp_path / "all.json", made_up.baseline(), made_up.lost_cancel())
    made_up.write(tmp_path / "slower.json", made_up.slower())
    answer = shown(tmp_path, "all.json", "slower.json", "--html", "drill.html")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == cli_session.golden("drill-report.txt", answer.out)
    assert (tmp_path / "drill.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_page_reads_as_committed() -> None:
    """It needs nothing else: no script, nothing from elsewhere, links within it only."""
    text = page(filed(made_up.baseline(), made_up.lost_cancel(), made_up.slower()))
    text = text.replace(VERSION, "VERSION")
    assert text.encode() == golden_pages.golden("drill-report.html", text.encode())
    reader = Reader(text)
    assert reader.tags["svg"] == 3 * 3 + 6  # each task's curve, and the legend
    assert reader.tags.keys().isdisjoint({"script", "img", "link", "iframe", "object"})
    assert reader.links == ["#drill-1", "#drill-2", "#drill-3"]
    assert not re.search(r"https?:|url\(|@import", text)


def test_columns_that_do_not_fit_stand_underneath() -> None:
    """No line is wider than the terminal, and each report stands there once."""
    reports = filed(*[made_up.baseline()] * 5)
    narrow = list(table(reports, 60))
    assert max(len(line) for line in narrow) <= 60
    assert sum(line.startswith("drill ") for line in narrow) == 3
    for name in ("1.json", "5.json"):
        assert "\n".join(narrow).count(name) == 1


def test_a_terminal_narrower_than_one_column_gets_one_at_a_time() -> None:
    """It wraps; nothing is lost."""
    lines = list(table(filed(made_up.baseline(), made_up.lost_cancel()), 20))
    assert sum(line.startswith("drill ") for line in lines) == 2


@pytest.mark.parametrize(
    ("other", "said"),
    [
        pytest.param(made_up.baseline(), "", id="the same knobs can be compared"),
        pytest.param(
            made_up.slower(),
            "These drills had different knobs (9af856923901, 0123456789ab): "
            "their numbers can't be compared.",
            id="another digest",
        ),
        pytest.param(
            made_up.slower().model_copy(update={"knobs_digest": made_up.DIGEST}),
            "These reports say the same digest of their knobs (9af856923901) but other knobs: "
            "one was edited, so their numbers can't be compared.",
            id="the same digest, other knobs",
        ),
    ],
)
def test_different_knobs_are_said_on_top(other: DrillReport, said: str) -> None:
    """In the table's first lines and above everything of the page."""
    reports = filed(made_up.baseline(), other)
    assert warning(reports) == said
    text = page(reports)
    top = text[: text.index("<main>")]
    assert top.count('role="alert"') == bool(said)
    assert " ".join(table(reports, 500)).startswith(said or "drill")
    assert ("Knobs that differ" in text) == bool(said)


def test_drills_with_the_same_knobs_share_a_scale() -> None:
    """So that curves can be compared by eye; other knobs have their own."""
    text = page(filed(made_up.baseline(), made_up.lost_cancel(), made_up.slower()))
    parts = text.split('<section class="drill"')[1:]
    tops = [max(map(int, re.findall(r'text-anchor="end">(\d+)</text>', part))) for part in parts]
    assert tops == [800, 800, 400]


def test_unknown_is_never_a_number() -> None:
    """A delta that was ever unknown is the word, on the terminal and on the page."""
    reports = filed(made_up.lost_cancel())
    [line] = [line for line in table(reports, 100) if line.startswith("orphan_token_delta")]
    assert line.split() == ["orphan_token_delta", "unknown"]
    assert re.search(
        r'<th scope="row">orphan_token_delta</th><td class="n unknown">', page(reports)
    )


def test_a_page_says_where_exporter_and_record_differ() -> None:
    """The number is marked, the sentence stands there, and a wrong hop is told."""
    text = page(filed(made_up.slower().model_copy(update={"hop": Hop.RETRY})))
    assert "≠ 0" in text
    assert "≠ retry, really none" in text
    assert "but none was broken." in text
    assert "The exporter and the drill disagree" in text


def damaged(change: dict[str, Any]) -> str:
    """Return a list of two reports as JSON, the second with one task and this change to it."""
    good, bad = (made_up.baseline().model_dump(mode="json") for _ in range(2))
    task = {**bad["tasks"][0], **change}
    bad["tasks"] = [{key: value for key, value in task.items() if value != "gone"}]
    return json.dumps([good, bad])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is no drill report: Invalid JSON: EOF", id="an empty file"),
        pytest.param("\xff", "is no drill report: Invalid JSON:", id="no JSON"),
        pytest.param("[" * 9999, "is no drill report: Invalid JSON: recursion", id="a deep one"),
        pytest.param("7", "is no drill report: Input should be an object", id="no object"),
        pytest.param("[]", "is an empty list", id="a list of none"),
        pytest.param("{}", "mode: Field required", id="another document"),
        pytest.param(
            damaged({"cutoff_s": "gone"}), "1.tasks.0.cutoff_s: Field required", id="a missing key"
        ),
        pytest.param(
            damaged({"deadline_s": "12"}),
            "1.tasks.0.deadline_s: Input should be a valid number",
            id="a text for a number",
        ),
        pytest.param(
            damaged({"orphan_tokens": float("nan")}),
            "1.tasks.0.orphan_tokens: Input should be a finite number",
            id="no number",
        ),
        pytest.param(
            damaged({"curve": [[0, 10**400]]}), "1.tasks.0.curve.0.1: Input should", id="a huge one"
        ),
        pytest.param(
            damaged({"\x1b[2J": 1}),
            "1.tasks.0.\\x1b[2J: Extra inputs are not permitted",
            id="a key that would clear the terminal",
        ),
    ],
)
def test_a_file_that_is_no_report_is_named_with_its_key(
    tmp_path: Path, text: str, said: str
) -> None:
    """Exit code 2, no page, and no value of the file in the message."""
    (tmp_path / "r.json").write_text(text, encoding="latin-1")
    answer = shown(tmp_path, "r.json", "--html", "drill.html")
    assert (answer.code, answer.out) == (2, "")
    assert f"r.json: {said}" in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "drill.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["gone.json"], "gone.json: can't be read: No such file", id="a missing file"),
        pytest.param(
            ["r.json", "--html", "./r.json"], "is one of the reports", id="a page over a report"
        ),
        pytest.param(
            ["r.json", "--html", "gone/drill.html"],
            "gone/drill.html can't be written: No such file or directory; choose another --html",
            id="a page that can't be written",
        ),
        pytest.param([], "Missing argument 'FILE...'", id="no file at all"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, and the report is still there."""
    file = made_up.write(tmp_path / "r.json", made_up.baseline())
    before = file.read_bytes()
    answer = shown(tmp_path, *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert file.read_bytes() == before


def test_files_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """One name alone is short."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    files = [tmp_path / name for name in ("a/r.json", "b/r.json", "c.json")]
    reports = read_reports([made_up.write(file, made_up.baseline()) for file in files])
    assert [each.file for each in reports] == [str(files[0]), str(files[1]), "c.json"]


def hostile() -> DrillReport:
    """Return a report in which somebody has edited every text."""
    report = made_up.lost_cancel()
    text = json.dumps(report.model_dump(mode="json"))
    for harmless in (
        f"{made_up.RUN}task-1",
        f"{made_up.RUN}request-2",
        "overflow",
        made_up.DIGEST,
        report.started_at,
        "cancel_at",
    ):
        text = text.replace(json.dumps(harmless), json.dumps(EVIL))
    document = json.loads(text)
    document["truth"]["disagreements"] = [EVIL]
    return DrillReport.model_validate_json(json.dumps(document), strict=True)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """The page has the same tags and attributes as a harmless one; the terminal sees no escape."""
    harmless = made_up.lost_cancel()
    truth = harmless.truth.model_copy(update={"disagreements": ("said",)})
    harmless = harmless.model_copy(update={"truth": truth})
    text, plain = Reader(page(filed(hostile()))), Reader(page(filed(harmless)))
    assert (text.tags, text.attributes) == (plain.tags, plain.attributes)

    file = made_up.write(tmp_path / "r.json", hostile(), made_up.slower())
    # As somebody would write it who does not go through our program.
    raw = file.read_text("utf-8").replace("\\\\x1b", "\\u001b")
    file.write_text(raw, "utf-8")
    answer = shown(tmp_path, "r.json", "--html", "drill.html")
    assert answer.code == 0
    for said in (answer.out, (tmp_path / "drill.html").read_text("utf-8")):
        assert "\\x1b[2J" in said
        assert all(sign.isprintable() or sign == "\n" for sign in said)


def test_a_real_drill_can_be_shown(tmp_path: Path) -> None:
    """What is written can be read; the cutoff is a grace after the cancel."""
    config = write_stack(tmp_path)
    report = drill(config, tmp_path, Fault.DROP_CANCEL)
    left = [task for task in report.tasks if task.cancel_at_s is not None]
    assert {(task.cancel_at_s, task.cutoff_s) for task in left} == {(3.5, 4.5)}
    assert all(task.cutoff_s is None for task in report.tasks if task.cancel_at_s is None)

    [back] = read_reports([made_up.write(tmp_path / "r.json", report)])
    assert back.report == report
    assert page([back]).count('<polygon class="area"') == len(left)


def test_the_orphan_part_begins_on_the_cutoff_and_weighs_what_is_told() -> None:
    """Both parts meet there, and each has only the points where it bends."""
    task = made_up.orphan()
    scale = Scale.of([task])
    curve = scale.curve(task)
    at_cutoff, at_end = (scale.x(4.5), scale.y(180)), (scale.x(16), scale.y(640))
    assert points(curve.wanted) == [(scale.x(0), scale.y(0)), at_cutoff]
    assert points(curve.orphan) == [at_cutoff, at_end]
    assert points(curve.area) == [at_cutoff, at_end, (at_end[0], at_cutoff[1])]


def test_a_task_that_stopped_within_the_grace_has_no_orphan_part() -> None:
    """It freezes: a flat line from its last token on."""
    task = made_up.shed()
    scale = Scale.of([task, made_up.orphan()])
    curve = scale.curve(task)
    assert (curve.orphan, curve.area) == ("", "")
    assert points(curve.frozen) == [(scale.x(3.8), scale.y(152)), (scale.x(16), scale.y(152))]


def points(line: str) -> list[tuple[float, float]]:
    """Return the points of a polyline."""
    pairs = (point.split(",") for point in line.split())
    return [(float(x), float(y)) for x, y in pairs]


seconds = st.floats(-1e9, 1e9)
tasks = st.builds(
    TaskReport,
    task_id=st.just("t"),
    retry_id=st.just(""),
    pool=st.just("p"),
    cancel_at_s=st.none() | seconds,
    cutoff_s=st.none() | seconds,
    deadline_s=seconds,
    prompt_tokens=st.just(0),
    decode_tokens_at_cancel=st.none(),
    decode_tokens_at_deadline=st.just(0),
    in_flight_after_cancel=st.none(),
    shed_reason=st.none(),
    propagation_s=st.none(),
    orphan_tokens=st.just(0.0),
    curve=st.lists(st.tuples(seconds, st.integers(0, 10**15)), max_size=5).map(tuple),
)


@given(st.lists(tasks, min_size=1, max_size=3))
def test_everything_is_drawn_inside_the_box(found: list[TaskReport]) -> None:
    """Whatever a file says: no curve leaves it, no two labels share a row, the ticks are few."""
    scale = Scale.of(found)
    for task in found:
        curve = scale.curve(task)
        for x, y in drawn(curve):
            assert curves.LEFT <= x <= curves.RIGHT
            assert curves.TOP <= y <= curves.BOTTOM
        rows = [flag.y for flag in curve.flags]
        assert len(set(rows)) == len(rows)
        assert max(rows) < curves.TOP
        assert 1 <= len(curve.across) <= 6
        assert 2 <= len(curve.up) <= 6


def drawn(curve: Curve) -> list[tuple[float, float]]:
    """Return every point of a curve."""
    lines = (curve.wanted, curve.orphan, curve.area, curve.frozen)
    ticks = [(tick.at, curves.BOTTOM) for tick in curve.across]
    return [
        *(point for line in lines for point in points(line)),
        *ticks,
        *((curves.LEFT, tick.at) for tick in curve.up),
        *((flag.x, curves.TOP) for flag in curve.flags),
    ]
