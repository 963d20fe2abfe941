"""The status page: the answer first, unknown never a number, hostile ids harmless."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import made_up_boards as made_up
import pytest
from golden_pages import golden
from graces import measured

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Action, Cause, GraceSource
from orphanwatch.exporter.status.page import StatusPage
from orphanwatch.exporter.web_response import SECURITY_HEADERS
from orphanwatch.runbooks.threshold import grace_text

NOW = Instant(made_up.AT + 2_300_000)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Reads a page: its tags balanced, its cells by row, its links and classes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag."""
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes the last one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note the text, and the cell it stands in."""
        if self.open and self.open[-1] in {"th", "td"}:
            self.rows[-1][-1] += data
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def row(self, name: str, cells: int) -> list[str]:
        """Return the row of that name and length."""
        (found,) = (row[1:] for row in self.rows if row[0] == name and len(row) == cells + 1)
        return found


def page_of(published: Published, config: Config | None = None) -> str:
    """Return the page as text."""
    return StatusPage(config or made_up.config()).page(published, NOW).decode()


@pytest.mark.parametrize(
    "published",
    [
        pytest.param(made_up.shed(), id="shed"),
        pytest.param(made_up.blind(), id="blind"),
        pytest.param(made_up.hold(), id="hold"),
        pytest.param(made_up.scale(), id="scale"),
        pytest.param(made_up.nothing_yet(), id="none"),
        pytest.param(made_up.stale(), id="stale"),
    ],
)
def test_whole_pages(published: Published, request: pytest.FixtureRequest) -> None:
    """The page in each state reads as committed; its tags balance, nothing comes from elsewhere."""
    page = StatusPage(made_up.config()).page(published, NOW)
    assert page == golden(f"status-{request.node.callspec.id}.html", page)
    reader = Reader(page.decode())
    assert page.count(b"<script") == 1
    assert reader.links[:7] == [
        "data:,",  # an icon of no bytes: else each browser asks for one, and logs a 404
        "runbook/service-page", "gate", "api/v1/verdict", "api/v1/orphans", "api/v1/snapshot",
        "metrics",
    ]  # fmt: skip
    assert {link.partition(":")[0] for link in reader.links}.isdisjoint({"http", "https"})
    assert page.count(b"url(") == page.count(b"url(#hatch)")
    jumps = [link.removeprefix("#") for link in reader.links if link.startswith("#")]
    assert "stores" in jumps
    assert [name for name in jumps if f'<h2 id="{name}">'.encode() not in page] == []


@pytest.mark.parametrize(
    ("published", "action"),
    [
        pytest.param(made_up.shed(), Action.SHED, id="shed"),
        pytest.param(made_up.blind(), Action.BLIND, id="blind"),
        pytest.param(made_up.hold(), Action.HOLD, id="hold"),
        pytest.param(made_up.scale(), Action.SCALE, id="scale"),
    ],
)
def test_the_answer_comes_first(published: Published, action: Action) -> None:
    """Word and sentence of the verdict stand above everything; its reasons follow."""
    page = page_of(published)
    assert f'class="banner {action}"' in page
    assert page.index(ACTION_WORDS[action]) < page.index("<table")
    assert published.evaluation is not None
    for reason in published.evaluation.verdict.reasons:
        assert page.index(ACTION_WORDS[action]) < page.index(reason.replace("'", "&#39;"))


@pytest.mark.parametrize("published", [made_up.nothing_yet(), made_up.stale()])
def test_no_evaluation_is_not_calm(published: Published) -> None:
    """Without a current evaluation the page says so, and shows no number of an older one."""
    page = page_of(published)
    assert 'class="banner none"' in page
    assert "nothing is known" in page
    assert "Pools" not in page
    assert Reader(page).row("ledger", 3) == ["unknown", "unknown", ""]


def test_stale_tells_its_age() -> None:
    """An evaluation that is too old is named with its age."""
    assert "The last evaluation is 2 min 12 s old, too old to be shown." in page_of(made_up.stale())


def test_unknown_is_a_word() -> None:
    """What a lost ledger leaves unknown says so; what is known stays."""
    reader = Reader(page_of(made_up.blind()))
    assert reader.row("overflow", 5) == ["unknown", "0", "0", "31", "closed"]
    assert reader.row("ledger", 3) == ["can't be read", "12 min 36 s ago", "no answer within 5s"]


def test_pools_and_admission() -> None:
    """A pool's line holds its tokens, leases over all causes, and whether it is closed."""
    page = Reader(page_of(made_up.shed()))
    assert page.row("overflow", 5) == ["18,432", "25", "0", "31", "closed"]
    assert page.row("paid", 5)[4] == "not overflow"


@pytest.mark.parametrize(
    ("published", "said"),
    [
        pytest.param(made_up.scale(), "open", id="open"),
        pytest.param(made_up.shed(), "closed", id="a condition closes it"),
        pytest.param(
            made_up.hold(), "closed, at least until 22:16:20Z", id="within the hold nothing is open"
        ),
        pytest.param(replace(made_up.scale(), gate=None), "unknown", id="no gate is no open gate"),
    ],
)
def test_admission_is_what_the_gate_says(published: Published, said: str) -> None:
    """The page must not say open while /gate answers 503."""
    assert Reader(page_of(published)).row("overflow", 5)[4] == said


def test_each_condition_is_told() -> None:
    """One line a condition; what can't be known neither holds nor fails."""
    page = Reader(page_of(made_up.shed()))
    assert page.row("orphan tokens are charged", 1) == ["yes"]
    assert page.row("no cancel reaches its workers", 1) == ["yes"]
    assert page.row("a request is decoded twice", 1) == ["unknown"]


def test_grace_tells_what_it_rests_on() -> None:
    """A proposal says that it is one; a measured grace says until when it holds."""
    assert Reader(page_of(made_up.scale())).row("overflow", 3) == [
        "1s", "proposal", "not measured: a number that somebody chose",
    ]  # fmt: skip
    gauges = made_up.calm_gauges() | {
        names.GRACE_SECONDS: (Sample(("overflow", GraceSource.MEASURED), 2.4),),
        names.GRACE_VALID_UNTIL: (Sample(("overflow",), 1_702_000_000.0),),
    }
    seen = made_up.evaluation(Action.SCALE, gauges=gauges)
    assert Reader(page_of(made_up.published(seen))).row("overflow", 3) == [
        "2.4s", "measured", "holds until 2023-12-08T01:46:40Z",
    ]  # fmt: skip


def test_a_measurement_that_is_not_used_is_told_from_none() -> None:
    """A grace that has expired was measured once: what to do is to measure it again."""
    expired = measured(made_up.config(), valid_until=Instant(made_up.AT - 1))
    assert Reader(page_of(made_up.scale(), expired)).row("overflow", 3) == [
        "1s", "proposal", "the measured grace is not used: see what can't be known",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(0.85, "850ms", id="under a second"),
        pytest.param(12.5, "12.5s", id="ten seconds and more are not rounded down"),
        pytest.param(0.0003, "1ms", id="nor is what is shorter than a millisecond"),
    ],
)
def test_grace_is_written_as_in_the_threshold_line(seconds: float, shown: str) -> None:
    """A number that stands in two places is one number."""
    grace = Sample(("overflow", GraceSource.PROPOSAL), seconds)
    gauges = made_up.calm_gauges() | {names.GRACE_SECONDS: (grace,)}
    seen = made_up.evaluation(Action.SCALE, gauges=gauges)
    assert Reader(page_of(made_up.published(seen))).row("overflow", 3)[0] == shown
    assert grace_text(micros(seconds)) == shown


def test_a_pool_s_name_stands_as_it_is() -> None:
    """No sign of it means anything to the page."""
    known = made_up.config()
    config = known.model_copy(update={"pools": {"#<b>": known.pools["overflow"]}})
    page = Reader(StatusPage(config).page(made_up.scale(), NOW).decode())
    assert ["condition", "#<b>"] in page.rows


@pytest.mark.parametrize(
    ("published", "page"),
    [
        pytest.param(made_up.shed(), "OrphanTokensAccruing", id="tokens past the cutoff"),
        pytest.param(made_up.blind(), "OrphanDetectorBlind", id="blind"),
        pytest.param(made_up.hold(), "service-page", id="hold"),
        pytest.param(made_up.scale(), "service-page", id="scale"),
        pytest.param(made_up.stale(), "OrphanDetectorBlind", id="stale"),
        pytest.param(
            made_up.published(
                made_up.evaluation(
                    Action.SHED,
                    gauges=made_up.calm_gauges()
                    | {names.LEASES: (Sample(("overflow", Cause.DEADLINE), 1.0),)},
                )
            ),
            "OrphanLeasesAlive",
            id="a lease past the cutoff",
        ),
        pytest.param(
            made_up.published(
                made_up.evaluation(
                    Action.SHED,
                    gauges=made_up.calm_gauges()
                    | {names.DUPLICATE_IN_FLIGHT: made_up.by_pool(0, 1)},
                )
            ),
            "OrphanDuplicateDecoders",
            id="a second decoder",
        ),
    ],
)
def test_the_answer_leads_to_what_to_do(published: Published, page: str) -> None:
    """The link below the verdict opens the runbook page for it."""
    assert f'<a href="runbook/{page}">What to do now' in page_of(published)


def test_orphans() -> None:
    """The worst twenty are shown; unknown tokens, worker and lease are words, a fraction no 0."""
    reader = Reader(page_of(made_up.shed()))
    assert reader.row("chatcmpl-7f3a91c20002", 7) == [
        "no id", "unknown", "overflow", "client cancel", "1 min 2 s", "unknown", "live",
    ]  # fmt: skip
    assert reader.row("chatcmpl-7f3a91c20003", 7)[5:] == ["under 0.1", "unknown"]
    assert "chatcmpl-7f3a91c20020" in page_of(made_up.shed())
    assert "chatcmpl-7f3a91c20021" not in page_of(made_up.shed())
    assert "3 more in the" in page_of(made_up.shed())


def test_hostile_ids_are_text() -> None:
    """An id that tries to be a page is shown as it is, and does nothing."""
    hostile = "\"'><script>alert(1)</script>\ud800{{ 7*7 }}"
    seen = made_up.evaluation(
        Action.SHED, hostile, orphans=(made_up.orphan(task_id=hostile, worker_id=hostile),)
    )
    page = page_of(made_up.published(seen))
    reader = Reader(page)
    assert page.count("<script") == 1
    assert reader.row(hostile.replace("\ud800", "?"), 7)[1] == hostile.replace("\ud800", "?")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(12.0, "12", id="whole"),
        pytest.param(1234.56, "1,234.6", id="a fraction"),
        pytest.param(0.04, "under 0.1", id="a fraction that would round to zero"),
        pytest.param(5e15, "5,000,000,000,000,000", id="very large"),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    """Numbers are readable, and only zero reads as zero."""
    gauges = made_up.calm_gauges() | {names.TOKEN_DELTA: (Sample(("overflow",), value),)}
    seen = made_up.evaluation(Action.SCALE, gauges=gauges)
    reader = Reader(page_of(made_up.published(seen)))
    assert reader.row("overflow", 5)[0] == shown
    assert reader.row("paid", 5)[0] == "unknown"


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        pytest.param(0, "0 s", id="now"),
        pytest.param(260_000, "0.3 s", id="a fraction"),
        pytest.param(-5_000_000, "0 s", id="a clock that was set back"),
        pytest.param(59_999_999, "1 min", id="rounding carries over"),
        pytest.param(3_601_000_000, "1 h 1 s", id="two units"),
        pytest.param(90_061_000_000, "1 d 1 h", id="the two largest"),
    ],
)
def test_ages(micros: int, shown: str) -> None:
    """Ages are told in the two largest units."""
    seen = replace(made_up.evaluation(Action.SCALE), at=Instant(NOW - micros))
    assert f"evaluated {shown} ago, at " in page_of(made_up.published(seen))


def test_the_script_is_allowed_by_its_digest() -> None:
    """The policy on every answer lets this script run, and no other."""
    page = page_of(made_up.shed())
    script = page[page.index("<script>") + len("<script>") : page.index("</script>")]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert f"script-src 'sha256-{digest}';" in policy
