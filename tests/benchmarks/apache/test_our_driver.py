"""Our load driver does what the lines of a race say: over real bookies, each verb once."""

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache.load_drivers import LoadDriver
from benchmarks.apache.protocol import DriverFailedError
from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

pytestmark = pytest.mark.processes

WINDOW = 1 << 20


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str | Path]]:
    folder = tmp_path_factory.mktemp("our-driver")
    address = f"sqlite://{folder}/meta.db"
    zones = {BookieId(f"bk-{letter}-0"): ZoneName(letter) for letter in "abc"}
    policy = Policy(
        placement=PlacementRules(zones=tuple(zones.values())),
        quorums=Quorums(ensemble=3, write=3, ack=2),
    )
    asyncio.run(make_cluster(address, policy))
    (folder / "payload").write_bytes(random.Random(1).randbytes(1 << 16))
    flags = {"--listen-socket": "127.0.0.1:0"}
    with bookie_processes(address, folder, zones, flags=flags) as bookies:
        bookies.start()
        module = ("-m", "benchmarks.apache.our_driver")
        yield [sys.executable, *module, address, "socket", folder / "payload"]


@pytest.fixture
def driver(command: list[str | Path], tmp_path: Path) -> Iterator[LoadDriver]:
    started = LoadDriver(command, tmp_path / "log")
    yield started
    started.kill()


@pytest.mark.parametrize("by", ["append", "many"])
def test_what_was_appended_is_read_back(driver: LoadDriver, by: str) -> None:
    driver.ask("begin", size=100, ledgers=3, window=WINDOW)
    done = driver.ask("append", milliseconds=200, window=WINDOW, by=by)
    assert int(str(done["entries"])) > 0
    assert driver.ask("finish") == {"entries": int(str(done["entries"])) + 3}


def test_latencies_are_those_of_each_entry(driver: LoadDriver) -> None:
    for verb, more in (("one_at_a_time", {}), ("at_rate", {"per_second": 200})):
        driver.ask("begin", size=1_024, window=WINDOW)
        done = driver.ask(verb, milliseconds=300, **more)
        latencies = done["latencies_us"]
        assert isinstance(latencies, list)
        assert len(latencies) == done["entries"] > 0  # type: ignore[operator]  # a number
        assert driver.ask("finish") == {"entries": len(latencies) + 1}


def test_a_follower_sees_each_entry_once(driver: LoadDriver) -> None:
    driver.ask("begin", size=1_024, window=WINDOW)
    done = driver.ask("tail", milliseconds=300, per_second=200)
    assert (done["entries"], done["appended"]) == (60, 61)
    assert len(done["latencies_us"]) == 60  # type: ignore[arg-type]  # a list
    assert driver.ask("finish") == {"entries": 62}


def test_what_is_kept_is_read_in_order_and_by_chance(driver: LoadDriver) -> None:
    driver.ask("begin", size=1_024, window=WINDOW)
    driver.ask("append", milliseconds=100, window=WINDOW)
    kept = driver.ask("keep")["entries"]
    assert driver.ask("catch_up")["entries"] == kept
    done = driver.ask("random_reads", milliseconds=200, under_per_second=100, under_size=4_096)
    assert int(str(done["written"])) > 0
    assert int(str(done["entries"])) > 0
    assert driver.ask("finish") == {"entries": kept}


def test_ledgers_are_created_closed_and_rolled(driver: LoadDriver) -> None:
    made = driver.ask("create_close", ledgers=5, outstanding=2, window=WINDOW)
    assert len(made["latencies_us"]) == 5  # type: ignore[arg-type]  # a list
    done = driver.ask(
        "sustain",
        size=1_024,
        per_second=500,
        milliseconds=400,
        ledger_bytes=50 * 1_024,
        every=10,
        window=WINDOW,
    )
    assert (done["entries"], done["ledgers"]) == (200, 5)
    assert len(done["latencies_us"]) == 20  # type: ignore[arg-type]  # a list


def test_a_ledger_whose_writer_was_killed_is_recovered(
    driver: LoadDriver, command: list[str | Path], tmp_path: Path
) -> None:
    victim = LoadDriver(command, tmp_path / "victim")
    victim.tell("write_for_ever", size=1_024, window=WINDOW)
    said = victim.hear(60)
    said = (victim.kill() or [said])[-1]
    ledger, acked = int(str(said["ledger"])), int(str(said["acked"]))
    done = driver.ask("recover", ledger=ledger, size=1_024, window=WINDOW)
    assert int(str(done["entries"])) > acked


def test_a_command_that_fails_is_an_error_and_the_driver_goes_on(driver: LoadDriver) -> None:
    for verb in ("begin", "fly"):
        with pytest.raises(DriverFailedError, match=verb):
            driver.ask(verb)
    assert driver.ask("begin", size=10, window=WINDOW) == {"entries": 1}
