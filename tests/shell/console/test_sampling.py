"""The pages of processes, read round by round for the console."""

from dataclasses import replace

import pytest

from tests.shell.reaching.test_last_seen import AUTO, bookie
from tests.shell.reaching.test_over_http import at
from zonekeeper.placement.base.fields import Plain
from zonekeeper.shell.console.sampling import Sampler
from zonekeeper.wire.running import looking
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessIdentity, ProcessKind

BK = bookie("bk-0")


def shown(kind: ProcessKind, name: str, **more: Plain) -> Page:
    named = ProcessIdentity(kind=kind, name=bookie(name).name, instance="one")
    return looking.as_json({**named.plain(), **more})


def moved(number: int) -> Page:
    return Page(
        f'zonekeeper_repair_bytes_moved_total{{cause="lost"}} {number}\n'
        "zonekeeper_repair_bytes_moved_total 5\nother 7\n"
    )


async def test_a_round_keeps_states_and_a_second_one_gives_the_bytes_that_repairs_copied() -> None:
    numbers = [1_000, 10**6]
    auto = {
        "/state": lambda: shown(AUTO.kind, AUTO.name, records={}),
        "/metrics": lambda: moved(numbers[0]),
    }
    bookies = {"/state": lambda: shown(BK.kind, BK.name, state="writable")}
    sampler = Sampler()
    async with at(AUTO, auto) as one, at(BK, bookies) as two:
        silent = replace(bookie("bk-1"), http=None)
        first = await sampler.sample([one, two, silent], "one")
        numbers.pop(0)
        second = await sampler.sample([one, two, silent], "one")
    state = first.states[BK.name]
    assert state is not None
    assert state["state"] == "writable"
    assert first.states[silent.name] is None
    assert first.watching is not None
    assert first.watching.process.name == AUTO.name
    assert first.bytes_per_second is None, "there is nothing to compare with"
    assert second.bytes_per_second is not None
    assert second.bytes_per_second > 0
    assert second.figures.remarks[BK.name] == (
        "its page does not answer: it gave no /metrics page",
    )


@pytest.mark.parametrize("second", ["999", "9" * 5_000, "-1", "1e9"])
async def test_a_number_that_is_none_or_goes_back_gives_no_rate(second: str) -> None:
    numbers = ["1000", second]
    auto = {
        "/state": lambda: shown(AUTO.kind, AUTO.name, records={}),
        "/metrics": lambda: Page(f"zonekeeper_repair_bytes_moved_total {numbers[0]}\n"),
    }
    sampler = Sampler()
    async with at(AUTO, auto) as one:
        await sampler.sample([one], "one")
        numbers.pop(0)
        assert (await sampler.sample([one], "one")).bytes_per_second is None
