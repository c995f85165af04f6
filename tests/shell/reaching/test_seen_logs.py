"""The file that remembers the names of logs: its format, its limits, and its end of life."""

import json
import stat
from pathlib import Path

import pytest

from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.shell.reaching import last_seen, seen_logs
from zonekeeper.shell.reaching.seen_logs import CURSORS_MAX, LOGS_MAX, KnownLog, SeenLogs

STORE = "zk://zk-0:2181/ledgers"
GOLDEN = (
    b'{"format":1,"instance":"one","logs":[{"cursors":["billing"],"name":"orders/eu-1"},'
    b'{"cursors":[],"name":"audit"}],"store":"zk://zk-0:2181/ledgers"}'
)


def of(*names: str, instance: str = "one") -> SeenLogs:
    return SeenLogs(store=STORE, instance=instance, logs=tuple(KnownLog(name=one) for one in names))


SEEN = seen_logs.used(of("orders/eu-1", "audit"), "orders/eu-1", ["billing"])
FULL = of(*(f"log-{number}" for number in range(LOGS_MAX)))


def kept(folder: Path) -> list[str]:
    seen = seen_logs.recall(folder, STORE)
    assert seen is not None
    return seen.names


def test_the_bytes_stay_as_they_are() -> None:
    assert seen_logs.render(SEEN) == GOLDEN
    assert seen_logs.parse(GOLDEN, STORE) == SEEN


def test_what_a_newer_program_adds_and_what_is_no_name_is_left_out() -> None:
    data = json.loads(GOLDEN)
    data["more"] = 1
    data["logs"][0]["colour"] = "blue"
    data["logs"][0]["cursors"] += ["\x1b[2J", 7, "a b"]
    data["logs"][1]["cursors"] = None
    data["logs"] += [7, {}, {"name": "a//b"}, {"name": "\x1b"}, {"name": "audit", "cursors": ["x"]}]
    assert seen_logs.parse(json.dumps(data).encode(), STORE) == SEEN


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        GOLDEN[:-1],
        GOLDEN.replace(b'"format":1', b'"format":2'),
        GOLDEN.replace(b"zk-0", b"zk-1"),
        GOLDEN + b" " * last_seen.BYTES_MAX,
        b'{"format":1,"instance":"one","logs":{},"store":"zk://zk-0:2181/ledgers"}',
    ],
)
def test_a_damaged_or_foreign_file_says_nothing_and_is_written_anew(
    raw: bytes, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableError):
        seen_logs.parse(raw, STORE)
    assert seen_logs.recall(tmp_path, STORE) is None
    last_seen.file_of(tmp_path, STORE).write_bytes(raw)
    assert seen_logs.recall(tmp_path, STORE) is None
    seen_logs.change(tmp_path, STORE, "one", lambda seen: seen_logs.used(seen, "new"))
    assert kept(tmp_path) == ["new"]


def test_logs_of_a_root_that_was_made_again_are_forgotten(tmp_path: Path) -> None:
    seen_logs.change(tmp_path, STORE, "one", lambda seen: seen_logs.used(seen, "old"))
    seen_logs.change(tmp_path, STORE, "two", lambda seen: seen_logs.used(seen, "new"))
    assert kept(tmp_path) == ["new"]


def test_the_file_has_the_logs_that_were_used_last() -> None:
    seen = seen_logs.used(FULL, "new")
    assert (seen.names[0], len(seen.names)) == ("new", LOGS_MAX)
    assert f"log-{LOGS_MAX - 1}" not in seen.names
    oldest = f"log-{LOGS_MAX - 2}"
    assert seen_logs.used(seen, oldest).names[:2] == [oldest, "new"]
    again = seen_logs.used(seen, "log-0")
    assert again == seen, "a log that is used all the time does not write the file each time"


def test_a_listing_pushes_out_no_log_that_was_used() -> None:
    assert seen_logs.listed(FULL, ["listed"]) == FULL
    assert seen_logs.listed(of("b"), ["a", "b", "c"]).names == ["b", "a", "c"]
    assert len(seen_logs.listed(of("used"), FULL.names).names) == LOGS_MAX


def test_cursors_are_kept_until_they_are_looked_at_again() -> None:
    assert seen_logs.used(SEEN, "orders/eu-1") == SEEN
    assert seen_logs.used(SEEN, "orders/eu-1", ["b", "a"]).cursors("orders/eu-1") == ("a", "b")
    assert seen_logs.used(SEEN, "orders/eu-1", []).cursors("orders/eu-1") == ()
    many = [f"{number:03d}" for number in range(CURSORS_MAX + 1)]
    assert len(seen_logs.used(SEEN, "audit", many).cursors("audit")) == CURSORS_MAX
    assert SEEN.cursors("none") == ()


def test_candidates_are_kept_until_they_are_looked_at_again() -> None:
    stands = seen_logs.used(SEEN, "orders/eu-1", candidates=["host-2", "host-1"])
    assert stands.candidates("orders/eu-1") == ("host-1", "host-2")
    assert stands.cursors("orders/eu-1") == SEEN.cursors("orders/eu-1")
    assert seen_logs.used(stands, "orders/eu-1", []).candidates("orders/eu-1") != ()
    assert seen_logs.parse(seen_logs.render(stands), stands.store) == stands
    assert seen_logs.used(stands, "orders/eu-1", candidates=[]).candidates("orders/eu-1") == ()
    data = json.loads(seen_logs.render(stands))
    data["logs"][0]["candidates"] = ["a/b", 7, "host-1", "\x1b[2J"]
    known = seen_logs.parse(json.dumps(data).encode(), stands.store)
    assert known.candidates("orders/eu-1") == ("host-1",)


def test_a_log_that_is_gone_is_forgotten() -> None:
    assert seen_logs.gone(SEEN, {"orders/eu-1", "none"}).names == ["audit"]


def test_a_file_that_would_be_too_large_keeps_the_newer_logs(tmp_path: Path) -> None:
    cursors = [f"{number:03d}{'x' * 97}" for number in range(CURSORS_MAX)]
    logs = tuple(KnownLog(name=one, cursors=tuple(cursors)) for one in FULL.names)
    large = SeenLogs(store=STORE, instance="one", logs=logs)
    assert len(seen_logs.render(large)) > last_seen.BYTES_MAX
    seen_logs.change(tmp_path, STORE, "one", lambda _: large)
    assert kept(tmp_path)[:2] == ["log-0", "log-1"]
    assert last_seen.file_of(tmp_path, STORE).stat().st_size <= last_seen.BYTES_MAX


def test_only_the_owner_can_read_the_file_and_no_part_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "logs"
    seen_logs.change(folder, STORE, "one", lambda _: SEEN)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_that_says_the_same_is_not_written(tmp_path: Path) -> None:
    seen_logs.change(tmp_path, STORE, "one", lambda _: SEEN)
    (before,) = tmp_path.iterdir()
    inode = before.stat().st_ino
    seen_logs.change(tmp_path, STORE, "one", lambda seen: seen_logs.used(seen, "audit"))
    assert before.stat().st_ino == inode


def test_clusters_that_were_written_first_go(tmp_path: Path) -> None:
    for number in range(last_seen.FILES_MAX + 1):
        seen_logs.change(tmp_path, f"zk://zk-{number}:1/a", "one", lambda s: seen_logs.used(s, "x"))
    assert len(list(tmp_path.iterdir())) == last_seen.FILES_MAX


def test_a_cache_that_cannot_be_written_is_no_error() -> None:
    seen_logs.change(Path("/proc/none"), STORE, "one", lambda _: SEEN)
