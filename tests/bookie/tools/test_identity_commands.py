"""A bookie's identity: prepared, shown, restored, moved, given a new disk, forgotten."""

import asyncio
import json
import shutil

import pytest

from tests.bookie.segments.keeping import opening
from tests.bookie.tools.places import BOOKIE, SIZES, Place
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import RealFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.storage import storage
from zonekeeper.metadata.bookies import cookie_store, registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

A, B = locations.parse("/a/ud-0"), locations.parse("/b/ud-1")


def ledger_on(*ensemble: BookieId) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=len(ensemble),
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), ensemble),),
        digest=Digest.CRC32C,
        password=b"",
        create_token=1,
    )


def stored_location(place: Place) -> locations.Location | None:
    found = place.in_cluster(lambda cluster: cookie_store.read(cluster, BOOKIE))
    return None if found is None else found.cookie.location


def test_a_new_bookie_is_prepared_whole(place: Place) -> None:
    answer = place.format()

    assert answer.exit_code == 0, answer.output
    assert f"{BOOKIE} will be a new bookie at /a/ud-0" in answer.stdout
    there = ["LOCK", "VERSION", "checkpoint", "log-end"]
    assert sorted(path.name for path in place.data.iterdir()) == there
    assert stored_location(place) == A
    assert place.listed("list-ledgers") == []
    assert place.on_data("scrub").exit_code == 0


def test_a_dry_run_prepares_nothing(place: Place) -> None:
    answer = place.on_data(
        *("format", "--metadata", place.metadata, "--id", BOOKIE, "--zone", "a"),
        *("--upgrade-domains", "3", "--dry-run"),
    )

    assert answer.exit_code == 0
    assert "nothing was done (--dry-run)" in answer.stdout
    assert not place.data.exists()
    assert stored_location(place) is None


def test_who_says_no_prepares_nothing(place: Place) -> None:
    answer = place.call(
        *("format", "--metadata", place.metadata, "--id", BOOKIE, "--zone", "a"),
        *("--upgrade-domains", "3", "--data", str(place.data)),
        input="n\n",
    )

    assert answer.exit_code == 1
    assert not place.data.exists()


def test_neither_data_nor_a_known_name_is_formatted(place: Place) -> None:
    place.data.mkdir()
    (place.data / "lost+found").mkdir()
    (place.data / "letters").touch()
    refused = place.format()
    assert refused.exit_code == 2
    assert "is not empty (it holds letters): nothing is ever erased here" in refused.stderr

    (place.data / "letters").unlink()
    assert place.format().exit_code == 0
    shutil.rmtree(place.data)
    refused = place.format()
    assert refused.exit_code == 2
    assert f"{BOOKIE} has a cookie in " in refused.stderr
    assert not place.data.exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"--id": "no/name"}, "--id: 'no/name' cannot be a bookie's id"),
        ({"--zone": ".."}, "--zone: '..' cannot be a zone's name"),
        ({"--upgrade-domains": "0"}, "--upgrade-domains"),
        ({"--metadata": "nowhere"}, "--metadata: "),
        ({"--data": "here"}, "--data: 'here': must be an absolute path"),
    ],
    ids=["id", "zone", "upgrade domains", "metadata", "data"],
)
def test_a_wrong_setting_is_refused_by_its_name(
    place: Place, changed: dict[str, str], reason: str
) -> None:
    given = {
        "--metadata": place.metadata,
        "--id": BOOKIE,
        "--zone": "a",
        "--upgrade-domains": "3",
        "--data": str(place.data),
        **changed,
    }

    answer = place.call("format", "--yes", *[word for pair in given.items() for word in pair])

    assert answer.exit_code == 2
    assert reason in answer.stderr
    assert not place.data.exists()


def test_both_cookies_are_shown_with_what_to_do(place: Place) -> None:
    place.format()
    show = ("cookie", "show", "--metadata", place.metadata)
    assert "they are the same" in place.on_data(*show).stdout

    assert B is not None
    place.in_cluster(lambda cluster: cookie_store.move(cluster, BOOKIE, B))
    moved = place.on_data(*show)
    assert (moved.exit_code, "the store says /b/ud-1, and the store counts" in moved.stdout) == (
        0,
        True,
    )

    (place.data / "VERSION").unlink()
    wiped = place.on_data(*show, "--id", BOOKIE, "--output", "json")
    said = json.loads(wiped.stdout)
    assert (wiped.exit_code, said["fits"], said["local"]) == (1, False, None)
    assert "the disk was wiped, replaced or is not mounted" in said["advice"]
    nameless = place.on_data(*show)
    assert (nameless.exit_code, "name the bookie with --id" in nameless.stderr) == (2, True)


def test_a_store_that_lost_the_cookie_gets_it_back(full: Place) -> None:
    async def lose(cluster: Cluster) -> None:
        await cookie_store.delete(cluster, BOOKIE, version=0)

    full.in_cluster(lose)
    show = full.on_data("cookie", "show", "--metadata", full.metadata)
    assert (show.exit_code, "If the store was lost" in show.stdout) == (1, True)
    create = ("cookie", "create", "--metadata", full.metadata)
    assert "nothing was done" in full.on_data(*create, "--dry-run").stdout
    assert stored_location(full) is None

    assert full.on_data(*create, "--yes").exit_code == 0

    assert stored_location(full) == A
    assert full.on_data("cookie", "show", "--metadata", full.metadata).exit_code == 0


def test_a_cookie_of_another_cluster_is_not_written(place: Place) -> None:
    place.format()
    version = place.data / "VERSION"
    version.write_text(version.read_text().replace('instanceId: "0', 'instanceId: "1'))

    answer = place.on_data("cookie", "create", "--metadata", place.metadata, "--yes")

    assert answer.exit_code == 2
    assert "the data belongs to cluster 1" in answer.stderr


def test_a_bookie_is_moved_to_another_zone_only_when_told_and_while_it_stands(place: Place) -> None:
    place.format()
    move = ("cookie", "move-zone", "--metadata", place.metadata)
    odd = place.on_data(*move, "--to", "/Zone_B/ud-1", "--yes")
    assert (odd.exit_code, "'Zone_B' can be a zone of no policy" in odd.stderr) == (2, True)
    wrong = place.on_data(*move, "--to", "b", "--yes")
    assert (wrong.exit_code, "--to: 'b' is no location" in wrong.stderr) == (2, True)
    assert "nothing was done" in place.on_data(*move, "--to", "/b/ud-1", "--dry-run").stdout
    assert stored_location(place) == A

    moved = place.on_data(*move, "--to", "/b/ud-1", "--yes")

    assert "moves from /a/ud-0 to /b/ud-1, with its data" in moved.stdout
    assert stored_location(place) == B


def test_a_bookie_is_forgotten_only_when_nothing_counts_on_it(place: Place) -> None:
    place.format()
    delete = ("cookie", "delete", "--id", BOOKIE, "--metadata", place.metadata)
    place.in_cluster(lambda c: ledgers.create(c, ledger_on(BOOKIE), ledger_id=LedgerId(4)))
    refused = place.call(*delete, "--yes")
    assert (refused.exit_code, f"1 ledgers name {BOOKIE} (4)" in refused.stderr) == (2, True)

    place.in_cluster(lambda c: ledgers.delete(c, LedgerId(4), Deleter(by="test", at_ms=1)))
    assert "nothing was done" in place.call(*delete, "--dry-run").stdout
    assert stored_location(place) == A
    assert place.call(*delete, "--yes").exit_code == 0
    assert stored_location(place) is None


def test_a_bookie_that_is_registered_is_neither_moved_nor_forgotten(place: Place) -> None:
    place.format()
    assert A is not None

    async def beside(cluster: Cluster) -> list[str]:
        info = service_info.of_bookie("host", 1, A, tls=False)
        registrar = registration.Registrar(cluster, BOOKIE, info, session_timeout_ms=10_000)
        await registrar.register(registration.Mode.WRITABLE)
        words = (
            ("move-zone", "--to", "/b/ud-1", "--data", str(place.data)),
            ("delete", "--id", BOOKIE),
        )
        return [
            (
                await asyncio.to_thread(
                    place.call, "cookie", *each, "--metadata", place.metadata, "--yes"
                )
            ).stderr
            for each in words
        ]

    for said in place.in_cluster(beside):
        assert f"{BOOKIE} is registered in " in said


def test_a_replaced_disk_starts_with_every_ledger_that_names_the_bookie_in_limbo(
    place: Place,
) -> None:
    place.format()
    other = BookieId("bk-b-0")

    async def name_it(cluster: Cluster) -> None:
        for number, ensemble in ((4, (BOOKIE, other)), (5, (other,)), (6, (other, BOOKIE))):
            await ledgers.create(cluster, ledger_on(*ensemble), ledger_id=LedgerId(number))

    place.in_cluster(name_it)
    replace = ("cookie", "replace-disk", "--id", BOOKIE, "--metadata", place.metadata)
    refused = place.on_data(*replace, "--yes")
    assert (refused.exit_code, "is not empty" in refused.stderr) == (2, True)
    shutil.rmtree(place.data)
    assert "2 ledgers name it, and start in limbo" in place.on_data(*replace, "--dry-run").stdout
    assert not place.data.exists()

    assert place.on_data(*replace, "--yes").exit_code == 0

    found = place.listed("list-ledgers")
    assert [(each["ledger"], each["limbo"], each["fenced"]) for each in found] == [
        (4, True, True),
        (6, True, True),
    ]
    assert place.on_data("cookie", "show", "--metadata", place.metadata).exit_code == 0
    asyncio.run(limbo_survives_a_start(place))


async def limbo_survives_a_start(place: Place) -> None:
    files = RealFileSystem(place.data)
    disk = InlineDisk()
    devices = Devices(
        arrival_files=files,
        files=files,
        index=Index(MemoryOrdered()),
        writing=disk,
        background=disk,
        reads=disk,
    )
    kept = await storage.open_storage(devices, SIZES)
    assert {each: kept.memory.ledgers[LedgerId(each)].durable.in_limbo for each in (4, 6)} == {
        4: True,
        6: True,
    }
    assert opening(5).ledger_id not in kept.memory.ledgers
    await kept.close()
    files.close()


def test_a_replacement_that_was_cut_short_is_done_again(place: Place) -> None:
    place.format()
    (place.data / "VERSION").unlink()  # it comes last

    answer = place.on_data(
        "cookie", "replace-disk", "--id", BOOKIE, "--metadata", place.metadata, "--yes"
    )

    assert answer.exit_code == 0, answer.output
    assert (place.data / "VERSION").exists()


def test_an_unknown_bookie_has_no_disk_to_replace(place: Place) -> None:
    answer = place.on_data(
        "cookie", "replace-disk", "--id", BOOKIE, "--metadata", place.metadata, "--yes"
    )

    assert answer.exit_code == 2
    assert "prepare a new bookie with `zonekeeper bookie format`" in answer.stderr
