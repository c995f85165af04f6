"""``zonekeeper ledger`` against bookies that run as processes; and how bytes become entries."""

import asyncio
import base64
import io
import json
import logging
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from tests.support.ready_processes import SHELL
from zonekeeper.client import client as clients
from zonekeeper.client import errors, reader
from zonekeeper.placement.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.policy import PlacementRules, Policy
from zonekeeper.shell.live import ledger_io, ledger_text, ledger_waiting
from zonekeeper.shell.live.ledger import ledger
from zonekeeper.shell.live.ledger_options import PASSWORD_VARIABLE
from zonekeeper.shell.live.zones import zones
from zonekeeper.wire.entries import PAYLOAD_BYTES_MAX

ZONES = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in "abc"}
TEXT = b"first\n\nthird, after an empty one\nlast"
#: What is started in the background may have interruptions switched off, and hand that on.
INTERRUPTIBLE = (
    sys.executable,
    "-c",
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('zonekeeper.shell', run_name='__main__')",
)
#: Stands for a ledger with this text, which a test makes.
OF_FOUR = "<four>"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcesses]:
    """A cluster of three bookies."""
    folder = tmp_path_factory.mktemp("ledgers")
    uri = f"sqlite://{folder / 'meta.db'}"
    zones = tuple(ZONES.values())
    asyncio.run(make_cluster(uri, Policy(placement=PlacementRules(zones=zones))))
    with bookie_processes(uri, folder, ZONES) as bookies:
        bookies.start()
        yield bookies


@pytest.fixture
def address(cluster: BookieProcesses) -> str:
    return cluster.address


def call(
    address: str, *words: str, given: bytes = b"", env: dict[str, str] | None = None
) -> Result:
    return CliRunner().invoke(
        ledger, [*words, "--metadata", address], input=given, env=env, catch_exceptions=False
    )


def done(address: str, *words: str, given: bytes = b"") -> bytes:
    """Call it; it must succeed."""
    result = call(address, *words, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def appended(address: str, given: bytes, *words: str) -> str:
    """Append to a new ledger, and give its number."""
    answer = json.loads(done(address, "append", *words, "-o", "json", given=given))
    return str(answer["ledger"])


def shown(address: str, number: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(done(address, "show", number, "-o", "json"))
    return found


def abandoned(address: str, count: int) -> str:
    """Leave a ledger with acknowledged entries as a process does that is killed."""

    async def made() -> LedgerId:
        async with clients.connect(address) as client:
            writer = await client.create()
            await writer.append_many(b"entry %d" % number for number in range(count))
            await writer.flush()
            writer.halt()
            return writer.ledger_id

    return str(asyncio.run(made()))


@pytest.mark.processes
def test_text_goes_in_and_comes_out(address: str) -> None:
    number = appended(address, TEXT)

    assert done(address, "read", number) == TEXT + b"\n"
    assert done(address, "tail", number) == TEXT + b"\n"
    assert (
        done(address, "read", number, "--first", "2", "--last", "2") == TEXT.split(b"\n")[2] + b"\n"
    )
    as_json = [
        json.loads(line) for line in done(address, "read", number, "-o", "json").splitlines()
    ]
    assert [each["entry"] for each in as_json] == [0, 1, 2, 3]
    assert [base64.b64decode(each["payload"]) for each in as_json] == TEXT.split(b"\n")


@pytest.mark.processes
def test_bytes_go_in_and_come_out_whatever_they_are(address: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    file = tmp_path / "data"
    file.write_bytes(data)
    number = appended(address, b"", str(file), "--entry-bytes", "1000")

    assert done(address, "read", number, "--raw") == data
    assert shown(address, number)["lastEntry"] == 3_000


@pytest.mark.processes
def test_the_number_is_said_before_the_input_has_ended(address: str) -> None:
    result = call(address, "append", given=TEXT)

    number = result.stdout.split(":")[0]
    assert result.stderr == f"{number}\n"
    assert result.stdout == f"{number}: 4 entries, closed\n"


@pytest.mark.processes
def test_a_ledger_with_a_password_is_read_by_who_has_it(address: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"secret\n")
    number = appended(address, TEXT, "--password-file", str(file))

    refused = call(address, "read", number)
    assert refused.exit_code == 2
    assert "another password" in refused.stderr
    assert f"none was given: use --password-file, or {PASSWORD_VARIABLE}" in refused.stderr
    wrong = call(address, "tail", number, env={PASSWORD_VARIABLE: "else"})
    assert f"the one in {PASSWORD_VARIABLE} was tried" in wrong.stderr
    assert done(address, "read", number, "--password-file", str(file)) == TEXT + b"\n"
    env = {PASSWORD_VARIABLE: "secret"}
    assert call(address, "read", number, env=env).stdout_bytes == TEXT + b"\n"
    assert shown(address, number)["hasPassword"] is True
    assert "secret" not in done(address, "show", number).decode()


@pytest.mark.processes
@pytest.mark.parametrize("nothing", [b"", b"\n", b"\r\n"])
def test_a_password_file_that_holds_none_is_refused(
    address: str, tmp_path: Path, nothing: bytes
) -> None:
    file = tmp_path / "password"
    file.write_bytes(nothing)
    before = done(address, "list")

    refused = call(address, "append", "--password-file", str(file), given=TEXT)
    assert refused.exit_code == 2
    assert f"{file} is empty" in refused.stderr
    assert done(address, "list") == before


@pytest.mark.processes
def test_what_is_made_is_shown(address: str) -> None:
    words = ("--quorums", "3/3/3", "--digest", "HMAC", "--custom", "who=me=you", "-o", "json")
    number = str(json.loads(done(address, "create", *words))["ledger"])

    found = shown(address, number)
    assert (found["state"], found["lastEntry"], found["length"]) == ("CLOSED", -1, 0)
    assert (found["quorums"], found["digest"]) == ("3/3/3", "HMAC")
    custom = found["custom"]
    assert isinstance(custom, dict)
    assert base64.b64decode(custom["who"]) == b"me=you"
    text = done(address, "show", number).decode()
    assert "CLOSED without entries" in text
    assert "bk-a-0" in text


@pytest.mark.processes
def test_a_custom_value_may_be_any_bytes(address: str) -> None:
    words = ("--custom", os.fsdecode(b"raw=\xff\x01"), "-o", "json")
    number = str(json.loads(done(address, "create", *words))["ledger"])

    custom = shown(address, number)["custom"]
    assert isinstance(custom, dict)
    assert base64.b64decode(custom["raw"]) == b"\xff\x01"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ("<&-", 2, "standard input is closed: name a file"),
        ("2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
    ],
)
def test_an_append_without_a_stream_is_refused_or_whole(
    address: str, streams: str, code: int, said: str
) -> None:
    before = done(address, "list").split()
    ended = by_sh(address, f"append {streams}", given=b"one\n")

    assert ended.returncode == code
    assert said.encode() in ended.stderr
    made = [number for number in done(address, "list").split() if number not in before]
    if code:
        assert made == []
    else:
        assert ended.stdout == b"ledger %s: 1 entry, closed\n" % made[0]


@pytest.mark.processes
def test_what_is_done_is_said_where_the_answer_cannot_be_written(address: str) -> None:
    append = by_sh(address, "append >/dev/full", given=b"one\n")
    assert append.returncode == 1
    number = append.stderr.split()[1].decode()
    done_but = b"1 entry, closed; the answer cannot be written: [Errno 28]"
    assert done_but in append.stderr

    delete = by_sh(address, f"delete {number} --yes >/dev/full")
    assert delete.returncode == 1
    assert b"all of them are deleted; the answer cannot be written: [Errno 28]" in delete.stderr


@pytest.mark.processes
@pytest.mark.parametrize("words", [["append"], ["read"], ["show"], ["list"], ["delete", "--yes"]])
def test_an_answer_that_is_not_read_is_no_error(address: str, words: list[str]) -> None:
    number = [] if words[0] in ("append", "list") else [appended(address, TEXT)]
    there, here = os.pipe()
    os.close(there)
    with os.fdopen(here, "wb") as unread:
        ended = subprocess.run(
            [*SHELL, "ledger", *words, *number, "--metadata", address],
            input=TEXT,
            stdout=unread,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 0
    assert b"Error" not in ended.stderr


@pytest.mark.processes
def test_entries_that_have_nowhere_to_go_are_not_read(address: str) -> None:
    ended = by_sh(address, f"read {appended(address, TEXT)} >&-")
    assert ended.returncode == 1
    assert ended.stderr == b"Error: standard output is closed: entries have nowhere to go\n"


def by_sh(address: str, words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Call it as a shell does, which has its own ways with streams."""
    command = f"{shlex.join(SHELL)} ledger {words}"
    env = {**os.environ, "ZONEKEEPER_METADATA": address}
    return subprocess.run(
        ["/bin/sh", "-c", command], input=given, env=env, capture_output=True, check=False
    )


@pytest.mark.processes
def test_a_ledger_that_was_left_open_is_read_and_then_recovered(address: str) -> None:
    number = abandoned(address, 50)

    before = done(address, "read", number, "--unconfirmed")
    assert before == b"".join(b"entry %d\n" % n for n in range(50))
    would = done(address, "recover", number, "--dry-run").decode()
    assert would == f"ledger {number}: OPEN; 3/3/2, 3 bookies; it would be recovered\n"
    unasked = call(address, "recover", number)
    assert unasked.exit_code == 2
    assert "--yes" in unasked.stderr
    assert shown(address, number)["state"] == "OPEN"

    length = len(before) - 50
    closed = f"ledger {number}: CLOSED at entry 49, {length} bytes; 3/3/2, 3 bookies\n"
    assert done(address, "recover", number, "--yes").decode() == closed
    assert done(address, "recover", number).decode() == closed
    assert done(address, "read", number) == before


@pytest.mark.processes
def test_ledgers_are_deleted_all_or_none(address: str) -> None:
    one, two = appended(address, TEXT), appended(address, TEXT)

    assert (
        f"would delete ledger {one}: CLOSED" in done(address, "delete", one, "--dry-run").decode()
    )
    refused = call(address, "delete", one, "999999", "--yes")
    assert refused.exit_code == 2
    assert "no ledger 999999; nothing was deleted" in refused.stderr
    assert call(address, "delete", one).exit_code == 2
    listed = done(address, "list").split()
    assert {one.encode(), two.encode()} <= set(listed)

    assert done(address, "delete", one, "--yes").decode() == f"deleted ledger {one}\n"
    assert one.encode() not in done(address, "list").split()
    assert f"ledger {two}: CLOSED at entry 3, {len(TEXT) - 3} bytes; 3/3/2" in (
        done(address, "list", "--long").decode()
    )
    lines = done(address, "list", "--long", "-o", "json").splitlines()
    assert int(two) in [json.loads(line)["ledger"] for line in lines]


@pytest.mark.processes
def test_a_deletion_that_fails_on_its_way_says_how_to_go_on(address: str) -> None:
    one, two, three = (appended(address, TEXT) for _ in range(3))
    with refused_deletions(address, two):
        failed = call(address, "delete", one, two, three, "--yes")
    assert failed.exit_code == 1
    assert f"1 of 3 are deleted; go on: `zonekeeper ledger delete {two} {three}`" in failed.stderr

    again = call(address, "delete", one, two, three, "--yes")
    assert again.exit_code == 2
    assert f"no ledger {one}; nothing was deleted" in again.stderr
    assert f"`zonekeeper ledger delete {two} {three}`" in again.stderr
    assert done(address, "delete", two, three, "--yes").count(b"deleted ledger ") == 2


def test_of_the_one_that_was_under_way_it_is_not_known() -> None:
    numbers = [LedgerId(number) for number in (3, 5, 8)]
    assert ledger_text.deleted_so_far(numbers, 1, unknown=True) == (
        "1 of 3 are deleted; ledger 5 may be, too; go on: `zonekeeper ledger delete 5 8`"
    )


@contextmanager
def refused_deletions(address: str, number: str) -> Iterator[None]:
    """Have the store refuse to delete a ledger."""
    with closing(sqlite3.connect(address.removeprefix("sqlite://"))) as store:
        store.execute(
            "CREATE TRIGGER refused BEFORE DELETE ON node "
            f"WHEN OLD.path LIKE '%L{int(number):04}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        yield
        store.execute("DROP TRIGGER refused")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("read", "999999"), "there is no ledger 999999"),
        (("read", OF_FOUR, "--first", "5", "--last", "4"), "--last is before --first"),
        (
            ("read", OF_FOUR, "--last", "1000"),
            "has 4 entries that are confirmed, and --last is 1000",
        ),
        (("recover", "999999", "--yes"), "there is no ledger 999999"),
        (("create", "--custom", "novalue"), "write KEY=VALUE"),
        (("create", "--custom", "a=1", "--custom", "a=2"), "given twice"),
        (("create", "--custom", "zonekeeper.placement=x"), "is taken"),
        (("create", "--quorums", "2/3/2"), "ensemble >= write >= ack"),
        (("create", "--quorums", "many"), "as 3/3/2"),
        (("create", "--quorums", "99999999999999/3/2"), "has 32 bookies at most"),
        (("create", "--quorums", f"{'9' * 9_999}/3/2"), "has 32 bookies at most"),
        (("create", "--quorums", "33/3/2"), "has 32 bookies at most"),
        (("create", "--custom", os.fsdecode(b"\xff=v")), "a key must be UTF-8"),
        (("create", "--quorums", "5/3/2"), "quorums.ensemble: 5"),
        (("show", "first"), "not a valid integer"),
    ],
)
def test_what_cannot_be_meant_is_refused(address: str, words: tuple[str, ...], said: str) -> None:
    made = appended(address, TEXT)

    result = call(address, *(made if word == OF_FOUR else word for word in words))

    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        ("sqlite:///proc", 2, "cannot be opened"),
        (f"sqlite://{Path(__file__).absolute()}", 2, "is no SQLite file"),
        ("sqlite:///nowhere/at/all.db", 2, "there is no such file"),
        ("http://example.org", 2, "one of zk://"),
    ],
)
def test_a_cluster_that_is_not_there_is_said_so(where: str, code: int, said: str) -> None:
    listing = call(where, "list")
    status = CliRunner().invoke(zones, ["status", "--metadata", where], catch_exceptions=False)
    for result in (listing, status):
        assert result.exit_code == code
        assert said in result.stderr


def test_why_a_follower_waits_is_said_after_a_while_and_once_for_each_cause() -> None:
    told: list[str] = []
    now_s = 0.0

    def fails(at_s: float, cause: str) -> None:
        nonlocal now_s
        now_s = at_s
        logging.getLogger(reader.__name__).warning("%s is away", cause)

    with ledger_waiting.heard(told.append, lambda: now_s) as trouble:
        for at_s, cause in ((0, "a"), (2.9, "a"), (3, "a"), (4, "a"), (5, "b"), (6, "a")):
            fails(at_s, cause)
        assert [text[:9] for text in told] == ["a is away", "b is away"]
        trouble.over()
        for at_s in (7, 9, 10):
            fails(at_s, "a")
        assert [text[:9] for text in told[2:]] == ["a is away"]
    fails(20, "c")
    assert len(told) == 3


def cut(data: bytes, sizes: list[int], cutter: ledger_io.Lines | ledger_io.Pieces) -> list[bytes]:
    """Cut what comes in portions of these sizes, then all the rest."""

    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.at = 0

        def read(self, size: int = -1, /) -> bytes:
            step = sizes.pop() if sizes else len(data)
            portion = data[self.at : self.at + step]
            self.at += step
            return portion

    async def all_of(portions: AsyncGenerator[list[bytes], None]) -> list[bytes]:
        return [entry async for portion in portions for entry in portion]

    return asyncio.run(all_of(ledger_io.entries_of(Slow(), cutter)))  # type: ignore[arg-type] # it reads, which is all that is asked


@given(st.lists(st.binary(max_size=5)), st.lists(st.integers(1, 7), max_size=20), st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_however_it_comes_in_it_is_cut_in_the_same_way(
    parts: list[bytes], sizes: list[int], piece: int
) -> None:
    data = b"\n".join(parts)
    lines = data.split(b"\n")
    assert cut(data, list(sizes), ledger_io.Lines()) == (lines if lines[-1] else lines[:-1])
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    assert cut(data, list(sizes), ledger_io.Pieces(piece)) == pieces


def test_a_line_that_no_entry_takes_is_refused_before_it_is_held() -> None:
    lines = ledger_io.Lines()
    lines.more(bytes(PAYLOAD_BYTES_MAX))
    with pytest.raises(errors.TooLarge, match="--entry-bytes"):
        lines.more(b"x")


@pytest.mark.processes
@pytest.mark.parametrize("interruptions", [1, 3])
def test_an_append_that_waits_for_its_input_can_be_interrupted(
    address: str, interruptions: int
) -> None:
    with subprocess.Popen(
        [*INTERRUPTIBLE, "ledger", "append", "--metadata", address],
        stdin=subprocess.PIPE,  # stays open: more may come
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        made = process.stderr.readline()
        for _ in range(interruptions):
            process.send_signal(signal.SIGINT)
        try:
            said = process.stderr.read()
            code_is = process.wait(60)
        finally:
            process.kill()
    assert code_is == 130
    number = made.split()[1]
    if interruptions == 1:
        assert said == (
            f"ledger {number} stays open; acknowledged: 0 entries; "
            f"`zonekeeper ledger recover {number}` closes it\ninterrupted\n"
        )
    assert "Traceback" not in said
    assert "ignored" not in said


@pytest.mark.processes
def test_an_append_that_fails_on_its_way_says_how_far_it_came(address: str) -> None:
    given = b"short\n" + bytes(PAYLOAD_BYTES_MAX + 1)
    result = call(address, "append", given=given)

    number = result.stderr.split()[1]
    assert result.exit_code == 1
    assert "use --entry-bytes" in result.stderr
    assert f"ledger {number}: acknowledged: 1 entry; " in result.stderr
    assert done(address, "read", number) == b"short\n"


@contextmanager
def appending(address: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Start an append whose input does not end by itself; give it, and its ledger."""
    with subprocess.Popen(
        [*SHELL, "ledger", "append", "--metadata", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline().split()[1].decode()
        finally:
            process.kill()


@pytest.mark.processes
def test_an_append_that_is_fenced_ends_without_more_input(address: str) -> None:
    with appending(address) as (process, number):
        assert process.stdin is not None
        assert process.stderr is not None
        done(address, "recover", number, "--yes")
        process.stdin.write(b"too late\n")
        process.stdin.flush()
        assert process.wait(60) == 1
        said = process.stderr.read().decode()
    assert f"ledger {number}: acknowledged: 0 entries; " in said
    assert done(address, "read", number) == b""


@pytest.mark.processes
def test_who_writes_or_follows_a_ledger_that_is_deleted_is_told_so(address: str) -> None:
    with appending(address) as (append, number):
        assert append.stdin is not None
        assert append.stderr is not None
        append.stdin.write(b"first\n")
        append.stdin.flush()
        with subprocess.Popen(
            [*SHELL, "ledger", "tail", number, "--metadata", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as tail:
            assert tail.stdout is not None
            try:
                assert tail.stdout.readline() == b"first\n"
                done(address, "delete", number, "--yes")
                _, said = tail.communicate(timeout=60)
            finally:
                tail.kill()
        assert (tail.returncode, said) == (1, f"Error: ledger {number} was deleted\n".encode())
        append.stdin.close()
        assert append.wait(60) == 1
        told = append.stderr.read().decode()
    assert told == f"Error: ledger {number} was deleted: what was written to it is lost\n"


@pytest.mark.processes
def test_a_recovery_that_is_interrupted_says_that_it_may_be_given_again(
    cluster: BookieProcesses, address: str
) -> None:
    number = abandoned(address, 3)
    silent = list(ZONES)[:2]
    for bookie in silent:
        cluster.freeze(bookie)
    try:
        with subprocess.Popen(
            [*INTERRUPTIBLE, "ledger", "recover", number, "--yes", "--metadata", address],
            stderr=subprocess.PIPE,
            text=True,
        ) as recover:
            try:
                while shown(address, number)["state"] == "OPEN":
                    assert recover.poll() is None
                recover.send_signal(signal.SIGINT)
                _, said = recover.communicate(timeout=60)
            finally:
                recover.kill()
    finally:
        for bookie in silent:
            cluster.thaw(bookie)
    assert recover.returncode == 130
    assert f"ledger {number} may be in recovery now, and its writer fenced; the same" in said
    assert b"CLOSED at entry 2" in done(address, "recover", number, "--yes")


@pytest.mark.processes
def test_a_tail_without_its_bookies_says_what_it_waits_for(
    cluster: BookieProcesses, address: str
) -> None:
    with (
        appending(address) as (append, number),
        subprocess.Popen(
            [*SHELL, "ledger", "tail", number, "--metadata", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as tail,
    ):
        assert append.stdin is not None
        assert tail.stdout is not None
        assert tail.stderr is not None
        try:
            append.stdin.write(b"first\n")
            append.stdin.flush()
            assert tail.stdout.readline() == "first\n"
            for bookie in ZONES:
                cluster.kill(bookie)
            said = tail.stderr.readline()
        finally:
            tail.kill()
            cluster.start()
    assert said.startswith(f"following ledger {number} at 1: ")
    assert all(bookie in said for bookie in ZONES)
