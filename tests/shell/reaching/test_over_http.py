"""Pages that are asked for and judged: who answers, who is silent, and who is somebody else."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.shell.reaching.test_last_seen import AUTO, bookie
from zonekeeper.placement.base.fields import Plain
from zonekeeper.shell.reaching import over_http, sights
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.shell.reaching.over_http import HttpLimits
from zonekeeper.shell.reaching.sights import Answering, ClusterSight, FetchedPage, Mistaken, Silent
from zonekeeper.shell.reaching.sights import Pages as Fetched
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import looking, page_identity
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind

BK = bookie("bk-0")
#: These limits are for hangs only; a test that is about a limit has its own.
PATIENT: Final = HttpLimits(page_ms=60_000, whole_ms=60_000)


def identity(name: str = "bk-0", instance: str | None = "one") -> ProcessIdentity:
    return replace(
        ProcessIdentity(kind=ProcessKind.BOOKIE, name=BK.name, instance=instance),
        name=bookie(name).name,
    )


def state(**more: Plain) -> dict[str, Plain]:
    return {**identity().plain(), **more}


def pages(
    shown: dict[str, Plain] | None, missing: dict[str, str] | None = None
) -> dict[str, Callable[[], Page]]:
    return {
        "/state": lambda: looking.as_json(shown or {}),
        "/readyz": lambda: looking.readiness(missing or {}, {"policy": "names no zone a"}),
        "/metrics": lambda: Page("a 1\n"),
    }


@contextlib.asynccontextmanager
async def at(
    process: KnownProcess, table: dict[str, Callable[[], Page]]
) -> AsyncIterator[KnownProcess]:
    async with looking.served(table, Address("127.0.0.1", 0)) as port:
        yield replace(process, http=Address("127.0.0.1", port))


async def test_all_are_asked_and_each_says_how_it_is() -> None:
    not_ready = pages(state(), {"disk": "full"})
    other = {**identity("bk-1").plain(), "location": "/b/ud-1"}
    auto: dict[str, Plain] = {"name": "auto-0", "leads": {"zoneWatch": True}, "records": {}}
    async with (
        at(BK, not_ready) as one,
        at(bookie("bk-1"), pages(other)) as two,
        at(AUTO, pages(auto)) as three,
    ):
        found = await over_http.ask([three, two, one], instance="one", metrics=True, limits=PATIENT)
    watch, first, second = found.sights
    assert isinstance(first, Answering)
    assert (first.ready, first.reasons) == (False, ("disk: full", "policy: names no zone a"))
    assert isinstance(second, Answering)
    assert (second.ready, second.reasons) == (True, ("policy: names no zone a",))
    assert (second.state, second.metrics) == (other, "a 1\n")
    assert found.watching is watch
    assert found.bookie(one.name) is first
    assert found.zones == ("a",)


async def test_a_process_that_does_not_answer_costs_its_own_time() -> None:
    async def mute(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with at(bookie("bk-1"), pages(identity("bk-1").plain())) as alive:
        dead = replace(BK, http=Address("127.0.0.1", port))
        limits = HttpLimits(page_ms=200, whole_ms=60_000)
        found = await over_http.ask([dead, alive], instance="one", limits=limits)
        assert [type(one) for one in found.sights] == [Silent, Answering]
        assert "no answer within 200 ms" in str(found.sights[0])

        # One connection at a time, and the mute process is first: the whole has a limit, too.
        limits = HttpLimits(page_ms=60_000, whole_ms=200, connections=1)
        found = await over_http.ask([dead, alive], instance="one", limits=limits)
        assert [type(one) for one in found.sights] == [Silent, Silent]
    server.close()


async def test_nothing_there_is_said_in_words() -> None:
    async with at(BK, {}) as gone:
        pass
    unknown = replace(bookie("bk-1"), http=Address("no-such-host.invalid", 1))
    without = replace(bookie("bk-2"), http=None)
    found = await over_http.ask([gone, unknown, without], instance=None, limits=PATIENT)
    whys = [one.why for one in found.sights if isinstance(one, Silent)]
    assert whys[0].endswith("Connection refused")
    assert whys[1].startswith("no-such-host.invalid:1: ")
    assert whys[2] == "it serves no HTTP"
    assert await over_http.ask([], instance=None) == ClusterSight()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello", "gives no HTTP answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "ends too early"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000, "more than 1000 bytes"),
        (b"", "gives no HTTP answer"),
    ],
)
async def test_an_answer_that_is_none_is_said(answer: bytes, why: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    where = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    limits = replace(PATIENT, page_bytes=1_000)
    found = await over_http.ask([replace(BK, http=where)], instance=None, limits=limits)
    (one,) = found.sights
    assert isinstance(one, Silent)
    assert why in one.why
    server.close()


# ── judging ──


def judged(text: str, *, status: int = 200, instance: str | None = "one") -> sights.HttpSight:
    fetched = Fetched(state=FetchedPage(status, text), ready=FetchedPage(200, "ready\n"))
    return sights.judge(BK, instance, fetched)


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (identity("bk-1"), "bookie bk-1 answers there now"),
        (identity(instance="two"), "bookie bk-0 of another cluster (two) answers there now"),
        (
            replace(identity(), kind=ProcessKind.AUTORECOVERY),
            "autorecovery bk-0 answers there now",
        ),
    ],
)
def test_s153_what_another_process_shows_is_not_taken_for_the_one_that_is_meant(
    shown: ProcessIdentity, says: str
) -> None:
    text = looking.as_json(dict(shown.plain())).text
    assert judged(text) == Mistaken(process=BK, identity=shown, why=says)


@pytest.mark.parametrize(
    "text", ["", "[]", "<html>", "{}", '{"name": 7}', '{"name": "\\u001b[2J"}', '{"kind": "x"}']
)
def test_s153_what_names_no_process_of_ours_is_nobody(text: str) -> None:
    found = judged(text)
    assert isinstance(found, Mistaken)
    assert found.identity is None


def test_s153_a_page_with_another_status_is_nobody_s() -> None:
    assert isinstance(judged(looking.as_json(dict(state())).text, status=404), Mistaken)


@pytest.mark.parametrize("instance", ["one", None])
def test_a_page_of_an_older_version_is_judged_by_its_name(instance: str | None) -> None:
    assert isinstance(judged('{"bookie": "bk-0"}', instance=instance), Answering)
    assert isinstance(judged('{"bookie": "bk-1"}', instance=instance), Mistaken)
    assert isinstance(judged('{"name": "bk-0"}', instance=instance), Mistaken)


@pytest.mark.parametrize(
    "shown",
    [
        ProcessIdentity(kind=ProcessKind.AUTORECOVERY, name=AUTO.name),
        replace(identity(), zone=BK.zone, upgrade_domain=BK.upgrade_domain),
    ],
)
def test_an_identity_is_read_as_it_was_shown(shown: ProcessIdentity) -> None:
    assert page_identity.of_state(shown.plain()) == shown


def test_s153_texts_of_a_page_can_be_printed_whoever_wrote_them() -> None:
    deep: Plain = "bottom"
    for _ in range(200):
        deep = [deep]
    hostile: dict[str, Plain] = {
        "restrictions": [{"what": "read-only", "reason": "\x1b[2J\ud800 \u202e\nfull", "by": None}],
        "records": {"b\r": {"counted": 3, "open": True}},
        "long": "x" * 100_000,
        "deep": deep,
    }
    found = judged(json.dumps(state(**hostile)))
    assert isinstance(found, Answering)
    assert found.state["restrictions"] == [
        {"what": "read-only", "reason": "?[2J? ??full", "by": None}
    ]
    assert found.state["records"] == {"b?": {"counted": 3, "open": True}}
    assert found.state["long"] == "x" * sights.TEXT_CHARS_MAX
    assert "bottom" not in str(found.state["deep"])


def test_without_a_readiness_page_a_process_is_not_ready() -> None:
    page = FetchedPage(200, looking.as_json(dict(state())).text)
    found = sights.judge(BK, None, Fetched(state=page, ready=None))
    assert isinstance(found, Answering)
    assert not found.ready
    found = sights.judge(BK, None, Fetched(state=page, ready=FetchedPage(503, "a\x1b[2J\n\n")))
    assert isinstance(found, Answering)
    assert found.reasons == ("a?[2J",)
    found = sights.judge(BK, None, Fetched(state=page, ready=FetchedPage(503, "")))
    assert isinstance(found, Answering)
    assert (found.ready, found.reasons) == (False, ("/readyz answers 503",))


def test_of_several_the_leader_of_the_zone_watch_is_asked() -> None:
    def auto(name: str, **shown: Plain) -> Answering:
        process = replace(AUTO, name=bookie(name).name)
        mine = ProcessIdentity(kind=ProcessKind.AUTORECOVERY, name=process.name)
        return Answering(process=process, identity=mine, ready=True, reasons=(), state=shown)

    first, second = auto("a", records={}), auto("b", records={}, leads={"zoneWatch": True})
    new = auto("0", leads={"zoneWatch": True})  # it has not read the records yet
    assert ClusterSight(sights=(new, first, second)).watching is second
    assert ClusterSight(sights=(new, first)).watching is first
    assert ClusterSight(sights=(new,)).watching is None
