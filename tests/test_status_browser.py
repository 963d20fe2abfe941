"""The status page in a real Chromium: what people see, and what they see when sight is lost."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import made_up_boards as made_up
import pytest
from browser import CONTRASTS, browsing, complaints, emulate, photograph
from plain_stack import plain
from servers import free_port
from stack_file import ZERO

from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import ACTION_WORDS
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.serve import start
from orphanwatch.exporter.snapshot import document_of
from orphanwatch.exporter.web import WebApp
from orphanwatch.exporter.web_address import Address
from orphanwatch.exporter.web_config import WebConfigFile
from orphanwatch.exporter.web_server import WebServer

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PATIENCE = 30.0
PHONE = 390
OWN = "document.title='owned'"
HOSTILE = f"<img src=x onerror={OWN}></script><script>{OWN}</script>"

ORPHAN_HEIGHT = """
const heights = [...document.querySelectorAll("#orphans-now tbody tr")].map(r => r.offsetHeight);
return heights.sort((one, other) => one - other)[heights.length >> 1] || 0;
"""
"""Returns the height of an orphan's row, in the middle of all."""
ONE_ORPHAN = 140  # a name and four lines: twenty of them are no endless page

pytestmark = pytest.mark.servers

BOARDS = {
    "shed": made_up.shed(),
    "blind": made_up.blind(),
    "hold": made_up.hold(),
    "scale": made_up.scale(),
    "stale": made_up.stale(),
}


@contextmanager
def shown(board: made_up.FakeBoard, port: int = 0) -> Iterator[WebServer]:
    """Serve a board's pages."""
    app = WebApp(
        board=board,
        config=made_up.config(),
        document=document_of,
        pages={},
        now=lambda: Instant(made_up.AT + 2_300_000),
    )
    server = WebServer(app, Address("127.0.0.1", port), WebConfigFile(None))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return one browser for the tests that only look."""
    with browsing() as driver:
        yield driver


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return once something holds; fail after some patience."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


def answer(driver: Any) -> str:
    """Return the text of the banner."""
    return text_of(driver, "answer")


def text_of(driver: Any, part: str) -> str:
    """Return the text of a part of the page, read at once: the script may replace it any time."""
    text: str = driver.execute_script(f"return document.getElementById('{part}').innerText")
    return text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [None, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", BOARDS)
def test_every_verdict_can_be_read(
    chromium: Any, name: str, width: int | None, scheme: str
) -> None:
    """The answer is on the first screen, no text is faint, nothing scrolls sideways."""
    published: Published = BOARDS[name]
    with shown(made_up.FakeBoard(published)) as server:
        chromium.set_window_size(1200, 900)
        emulate(chromium, scheme, width)
        chromium.get(f"{server.url}/")
        banner = chromium.find_element("id", "answer")
        action = published.evaluation.verdict.action if published.evaluation else None
        wanted = ACTION_WORDS[action] if action else "Treat it as blind, change nothing."
        assert wanted in banner.text
        assert banner.rect["y"] + banner.rect["height"] < 844
        assert chromium.execute_script(CONTRASTS) == []
        assert chromium.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        assert complaints(chromium) == []
        jumps = chromium.find_element("id", "jumps")
        assert jumps.is_displayed() == (width is not None), "on a phone the tables are far below"
        assert chromium.execute_script(ORPHAN_HEIGHT) < ONE_ORPHAN
        if os.environ.get("REWRITE_PICTURES") and width is None:
            photograph(chromium, PICTURES / f"status-{name}-{scheme}.png")


def test_the_page_follows_without_being_loaded_again(chromium: Any) -> None:
    """A lost store turns the answer to blind, its return turns it back; the reader stays put."""
    board = made_up.FakeBoard(made_up.scale())
    emulate(chromium, "light")
    with shown(board) as server:
        chromium.get(f"{server.url}/")
        chromium.execute_script("window.loadedOnce = true; window.scrollTo(0, 300)")
        before = chromium.execute_script("return window.scrollY")
        assert before > 0
        board.published = made_up.blind()
        wait_until(lambda: "BLIND" in answer(chromium), "blind is shown")
        assert "can't be read" in text_of(chromium, "stores-now")
        assert chromium.title.startswith("? BLIND")
        board.published = made_up.scale()
        wait_until(lambda: "SCALE" in answer(chromium), "sight is back")
        assert chromium.execute_script("return window.loadedOnce") is True
        assert chromium.execute_script("return window.scrollY") == before
        assert complaints(chromium) == []


def test_an_exporter_that_is_gone_is_not_calm(chromium: Any) -> None:
    """What is on the screen is called old within seconds, and the title says so in its tab."""
    board = made_up.FakeBoard(made_up.scale())
    emulate(chromium, "light")
    port = free_port()
    with shown(board, port) as server:
        chromium.get(f"{server.url}/")
        lost = chromium.find_element("id", "lost")
        assert not lost.is_displayed()
    wait_until(lost.is_displayed, "the loss is shown")
    assert "Treat it as blind, change nothing." in lost.text
    assert "NO ANSWER" in chromium.title
    with shown(board, port):
        wait_until(lambda: not lost.is_displayed(), "the loss is over")
        assert chromium.title.startswith("✔ SCALE")
    complaints(chromium)  # that nobody answered is what the browser was asked to find out


def test_an_answer_that_is_no_status_page_is_a_loss(chromium: Any) -> None:
    """A proxy's login page in between must not leave an old calm standing."""
    emulate(chromium, "light")
    with shown(made_up.FakeBoard(made_up.scale())) as server:
        chromium.get(f"{server.url}/")
        chromium.execute_script("history.replaceState(null, '', '/-/healthy')")
        lost = chromium.find_element("id", "lost")
        wait_until(lost.is_displayed, "the loss is shown")


def test_hostile_text_is_only_text(chromium: Any) -> None:
    """Ids and reasons that are pages of their own stay words, at first and when they come later."""
    hostile = made_up.published(
        made_up.evaluation(
            Action.SHED, HOSTILE, orphans=(made_up.orphan(task_id=HOSTILE, worker_id=HOSTILE),)
        )
    )
    board = made_up.FakeBoard(hostile)
    emulate(chromium, "light")
    with shown(board) as server:
        chromium.get(f"{server.url}/")
        assert HOSTILE in answer(chromium)
        board.published = made_up.scale()
        wait_until(lambda: "SCALE" in answer(chromium), "scale is shown")
        board.published = hostile
        wait_until(lambda: "SHED" in answer(chromium), "shed is shown")
        assert HOSTILE in text_of(chromium, "orphans-now")
        assert chromium.find_elements("css selector", "img") == []
        assert "owned" not in chromium.title
        assert complaints(chromium) == []


def test_without_javascript_it_reloads_itself() -> None:
    """The page is whole without its script, and follows all the same."""
    board = made_up.FakeBoard(made_up.scale())
    with browsing(javascript=False) as driver, shown(board) as server:
        driver.get(f"{server.url}/")
        assert ACTION_WORDS[Action.SCALE] in answer(driver)
        assert "Queue depth" in text_of(driver, "picture")
        board.published = made_up.shed()
        wait_until(lambda: "SHED" in driver.title, "shed is shown")
        assert ACTION_WORDS[Action.SHED] in answer(driver)


def test_every_link_is_reached_by_keyboard(chromium: Any) -> None:
    """Tab goes through the links in the order of the page, and each shows where it is."""
    emulate(chromium, "light")
    with shown(made_up.FakeBoard(made_up.shed())) as server:
        chromium.get(f"{server.url}/")
        links = chromium.execute_script(
            "return [...document.links].filter(link => link.offsetParent).map(link => link.href)"
        )
        reached = []
        for _ in range(40):
            chromium.switch_to.active_element.send_keys("\ue004")
            href, outline = chromium.execute_script(
                "const a = document.activeElement;"
                "return [a.href || null, getComputedStyle(a).outlineStyle]"
            )
            if href:
                reached.append(href)
                assert outline != "none"
            if len(reached) == len(links):
                break
        assert reached == links


def test_a_real_store_lost_and_found_again(chromium: Any, tmp_path: Path) -> None:
    """From the file that moves away to the words in the browser: shed, blind, shed."""
    config = plain(tmp_path, refresh_interval="1s").config
    emulate(chromium, "light")
    began = time.monotonic()

    def clock() -> Instant:
        return Instant(instant_of_epoch(ZERO + 30) + round((time.monotonic() - began) * 1e6))

    running = start(config, Address("127.0.0.1", 0), clock)
    try:
        chromium.get(running.url)
        wait_until(lambda: "SHED" in answer(chromium), "shed is shown")
        assert "orphan" in text_of(chromium, "orphans-now")
        (tmp_path / "stack.db").rename(tmp_path / "elsewhere.db")
        wait_until(lambda: "BLIND" in answer(chromium), "blind is shown")
        (tmp_path / "elsewhere.db").rename(tmp_path / "stack.db")
        wait_until(lambda: "BLIND" not in answer(chromium), "sight is back")
    finally:
        running.stop()
