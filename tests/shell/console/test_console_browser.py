"""The console in Debian's chromium: an outage as a person sees it, and names that are hostile.

``CONSOLE_PICTURES=<folder>`` (``make console-pictures``) writes pictures of what it sees.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from tests.shell.live_cluster import LiveCluster, live_cluster
from tests.shell.live_world import WALL_MS, LiveWorld
from tests.support import chromium, devtools, java_runtime
from tests.support.chromium import NoChromiumError
from tests.support.devtools import Browser, Tab
from tests.support.ready_processes import SHELL
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.timeline import Event
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.commands.ledger import ledger

pytestmark = pytest.mark.demo

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>'; rm"
)
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        found = chromium.chromium()
    except NoChromiumError as error:
        java_runtime.do_without(str(error))
    with devtools.browser(found, tmp_path_factory.mktemp("browser") / "profile") as made:
        yield made


@contextlib.contextmanager
def console(address: str, cache: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Give the page of a console that is a process of its own."""
    process = subprocess.Popen(
        [*SHELL, "console", "--metadata", address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    drained = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        said = process.stdout.readline()
        assert "http://" in said, process.stderr.read()
        drained.start()
        yield said.rpartition(" ")[2].strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if drained.is_alive():
            drained.join(10)
        process.stdout.close()
        process.stderr.close()


def pictures(tab: Tab, name: str) -> None:
    """Take pictures, if they are wanted: light and dark, wide and narrow."""
    folder = os.environ.get("CONSOLE_PICTURES")
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for dark in (False, True):
            tab.look(width=width, dark=dark)
            tab.evaluate("new Promise((done) => setTimeout(done, 600))")  # bars move for a while
            shade = "dark" if dark else "light"
            tab.picture(Path(folder) / f"{name}-{width}-{shade}.png")
    tab.look(width=WIDTHS[0])


def test_s183_s184_an_outage_is_seen_and_understood_on_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        live_cluster(tmp_path / "local", "--bookies-per-zone", "2") as cluster,
        console(cluster.address, tmp_path / "cache") as (url, _),
    ):
        written = [cluster.text(ledger, "append", given=b"entry\n" * 200) for _ in range(3)]
        assert all(written)
        tab = browser.tab()
        tab.look(width=WIDTHS[0])
        tab.go(url)
        calm(tab)
        pictures(tab, "calm")
        light_and_dark(tab)
        what_if(tab)
        cluster.local.data("kill-zone", "c")
        held(tab, cluster)
        fits_every_width(tab)
        pictures(tab, "outage")
        released(tab, cluster)
        assert tab.troubles == []

        away = store_goes(cluster)
        with console(cluster.address, tmp_path / "cache") as (late, _):
            started_while_away(browser, late)
        away.rename(cluster.local.folder / "meta.db")


def calm(tab: Tab) -> None:
    tab.until("document.querySelectorAll('#zones article').length === 3")
    tab.until("document.querySelectorAll('#zones .chip.good').length >= 6 + 6")
    tab.until("document.querySelectorAll('#ledgers tbody tr').length === 3")
    # Figures come with the second round of reading the bookies' pages.
    tab.until("document.querySelector('#tiles').innerText.includes('/s')")
    assert tab.evaluate("document.querySelector('#held').innerText") == ""
    assert "6" in tab.evaluate("document.querySelector('#tiles').innerText")


def light_and_dark(tab: Tab) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.evaluate(ground)
    tab.click("#theme")
    tab.until(f"{ground} !== {json.dumps(light)}")
    assert tab.evaluate("document.querySelector('#theme').innerText") == "light"
    tab.click("#theme")
    tab.until(f"{ground} === {json.dumps(light)}")
    tab.look(width=WIDTHS[0], dark=True)
    tab.evaluate("localStorage.removeItem('theme'); delete document.documentElement.dataset.theme")
    tab.until(f"{ground} !== {json.dumps(light)}")
    tab.look(width=WIDTHS[0])


def what_if(tab: Tab) -> None:
    tab.click("#zones [data-do='zone'][data-of='b']")
    tab.until("document.querySelector('dialog').open")
    tab.until("document.querySelector('dialog .bars')?.innerText.includes('of 3 ledgers')")
    assert "If zone b were lost" in tab.evaluate("document.querySelector('dialog').innerText")
    tab.click("#close")
    tab.until("!document.querySelector('dialog').open")
    # What is shown right after a close keeps its answer: the browser tells of the close later.
    tab.click("#zones [data-do='zone'][data-of='b']")
    tab.until("document.querySelector('dialog').open")
    tab.evaluate(
        "document.querySelector('#close').click(); "
        "document.querySelector(\"[data-do='zone'][data-of='a']\").click()"
    )
    tab.until("document.querySelector('#details-title').innerText === 'If zone a were lost'")
    tab.until("document.querySelector('dialog .bars')?.innerText.includes('of 3 ledgers')")
    tab.click("#close")
    tab.until("!document.querySelector('dialog').open")
    # The keyboard does as well as the mouse.
    tab.evaluate("document.querySelector(\"[data-do='bookie'][data-of='bk-a-0']\").focus()")
    tab.press("Enter", 13, "\r")
    tab.until("document.querySelector('#details-title').innerText === 'Bookie bk-a-0'")
    tab.until("document.querySelector('dialog .bars')?.innerText.includes('of 3 ledgers')")
    tab.press("Escape", 27)
    tab.until("!document.querySelector('dialog').open")


def held(tab: Tab, cluster: LiveCluster) -> None:
    """The page, which nobody loads again, shows the outage, its evidence and its price."""
    tab.until("document.querySelector('#banners')?.innerText.includes('zoneDown')", 60)
    tab.until("document.querySelector('#held article')?.dataset.key === 'c'", 60)
    panel = "document.querySelector('#held article')"
    assert "0 of 2 bookies available" in tab.evaluate(f"{panel}.innerText")
    tab.until(f"{panel}.innerText.includes('to be copied')")
    assert "bk-c-0, bk-c-1" in tab.evaluate(f"{panel}.innerText")
    clock = f"{panel}.querySelector('[data-tick=held]').innerText"
    before = tab.evaluate(clock)
    tab.until(f"{clock} !== {json.dumps(before)}")
    tab.until("document.querySelectorAll('#bands i.bad.is-held').length === 1")

    tab.click("#held summary")
    copy = "#held [data-command='release its losses'] [data-do='copy']"
    tab.until(f"document.querySelector({json.dumps(copy)}).disabled")  # a reason is wanted
    tab.evaluate("document.querySelector('#held [data-reason]').focus()")
    tab.type('it\'s gone; "for good" $(reboot)')
    tab.until(f"!document.querySelector({json.dumps(copy)}).disabled")
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    tab.click(copy)
    words = shlex.split(tab.until("window.copied"))
    assert words[:5] == ["zonekeeper", "autorecovery", "release", "--zone", "c"]
    assert words[words.index("--reason") + 1] == 'it\'s gone; "for good" $(reboot)'
    assert words[words.index("--metadata") + 1] == cluster.address
    assert "Copied" in tab.evaluate(f"document.querySelector({json.dumps(copy)}).innerText")

    tab.click("#held [data-do='runbook']")
    tab.until("document.querySelector('dialog pre')?.innerText.includes('What it means')")
    tab.click("#close")


def fits_every_width(tab: Tab) -> None:
    for width in WIDTHS:
        tab.look(width=width)
        tab.until(f"window.innerWidth === {width}")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.look(width=WIDTHS[0])


def released(tab: Tab, cluster: LiveCluster) -> None:
    """The copied command, run in a terminal, does what the page said; the page follows."""
    words = shlex.split(tab.evaluate("window.copied"))
    done = subprocess.run(
        [*SHELL, *words[1:], "--yes"], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    tab.until("document.querySelector('#zones').innerText.includes('repair released')", 60)
    tab.until("document.querySelector('#held').innerText === ''", 60)


def store_goes(cluster: LiveCluster) -> Path:
    """Take the store's file away, as a disk that is lost does."""
    path = cluster.local.folder / "meta.db"
    return path.rename(path.with_name("away.db"))


def started_while_away(browser: Browser, url: str) -> None:
    """A console that starts now shows what processes say over HTTP, and how old it is."""
    tab = browser.tab()
    tab.look(width=WIDTHS[0])
    tab.go(url)
    banner = "document.querySelector('#banners').innerText"
    tab.until(f"{banner}.includes('store away since')")
    tab.until(f"{banner}.includes('bookies over HTTP as of')")
    tab.until("document.querySelector('#zones').innerText.includes('writable')", 60)
    tab.until("document.querySelector('#zones').innerText.includes('no answer')", 60)
    pictures(tab, "store-away")
    tab.until("document.querySelector('#live').innerText.includes('zones over HTTP')", 60)
    assert tab.evaluate("document.querySelector('#events').hidden"), "there is no event to show"
    tab.click("#zones [data-do='zone']")
    tab.until("document.querySelector('dialog').innerText.includes('while the store is away')")
    tab.click("#close")
    assert tab.troubles == []


def test_s185_hostile_names_and_reasons_are_text(browser: Browser, tmp_path: Path) -> None:
    world = LiveWorld(tmp_path)
    world.build(lost="b")

    async def write(cluster: Cluster) -> None:
        mark = Mark(at_ms=WALL_MS, by=HOSTILE, reason=HOSTILE)
        await bookie_records.drain(cluster, BookieId("bk-a-0"), mark)
        event = Event(
            at_ms=WALL_MS, kind=HOSTILE, subject="zone a", by=HOSTILE, reason=HOSTILE, token="t"
        )
        await timeline.append(cluster, event)

    def written(cluster: Cluster) -> Awaitable[None]:
        return write(cluster)

    world.on(written)
    with console(world.address, tmp_path / "cache") as (url, process):
        tab = browser.tab()
        tab.go(url)
        tab.until(f"document.querySelector('#events').innerText.includes({json.dumps(HOSTILE)})")
        tab.until(f"document.querySelector('#zones').innerText.includes({json.dumps(HOSTILE)})")
        assert tab.evaluate("document.images.length") == 0
        assert tab.evaluate("document.scripts.length") == 1
        assert tab.evaluate("document.title") == "zonekeeper console"
        assert tab.troubles == []
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        tab.until("document.querySelector('#banners').innerText.includes('does not answer')", 60)


def test_a_frame_and_a_script_in_the_page_are_forbidden(browser: Browser, tmp_path: Path) -> None:
    world = LiveWorld(tmp_path)
    world.build()
    with console(world.address, tmp_path / "cache") as (url, _):
        tab = browser.tab()
        tab.go(url)
        tab.evaluate(
            "(() => { const one = document.createElement('script'); one.textContent = "
            "\"document.title = 'owned'\"; document.body.append(one); })()"
        )
        assert tab.evaluate("document.title") == "zonekeeper console"
        assert any("Content Security Policy" in one for one in tab.troubles)
