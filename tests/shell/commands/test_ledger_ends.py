"""How ``zonekeeper ledger`` ends where something is missing, interrupted, stopped or taken away."""

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.shell.ledger_world import (
    INTERRUPTIBLE,
    TEXT,
    ZONES,
    abandoned,
    appended,
    appending,
    by_sh,
    call,
    done,
    frozen,
    shown,
)
from tests.support.bookie_processes import BookieProcesses
from tests.support.ready_processes import SHELL
from zonekeeper.client.api import client as clients
from zonekeeper.client.api import reader
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.shell.commands import ledger_waiting
from zonekeeper.shell.reports import ledger_text
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX

#: Long enough that a deletion of many is not over before it can be interrupted.
TAKE_LONG = (
    "SELECT max(x) FROM (WITH RECURSIVE counted(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM counted WHERE x < 300000) SELECT x FROM counted)"
)


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
    assert ended.stderr == (
        b"Error: standard output is closed, so entries cannot be written: "
        b"give it a file or a pipe\n"
    )


@pytest.mark.processes
def test_a_deletion_that_fails_on_its_way_says_how_to_go_on(address: str) -> None:
    one, two, three = (appended(address, TEXT) for _ in range(3))
    refuse = "SELECT RAISE(ABORT, 'refused')"
    with before_deletions(address, f"%L{int(two):04}", refuse):
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
    assert ledger_text.deleted_so_far(numbers, 3, unknown=False) == "all 3 are deleted"


@pytest.mark.processes
def test_a_deletion_that_is_interrupted_says_how_to_go_on(address: str) -> None:
    numbers = [str(number) for number in asyncio.run(many(address, 30))]
    command = [*INTERRUPTIBLE, "ledger", "delete", *numbers, "--yes", "--metadata", address]
    with (
        before_deletions(address, "%L%", TAKE_LONG) as store,
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as delete,
    ):
        assert delete.stderr is not None
        try:
            for _ in numbers:
                delete.stderr.readline()  # what is about to be deleted
            first = f"SELECT * FROM node WHERE path LIKE '%L{int(numbers[0]):04}'"
            while store.execute(first).fetchall():
                assert delete.poll() is None
            delete.send_signal(signal.SIGINT)
            told, last = delete.stderr.read().splitlines()
            assert (delete.wait(), last) == (130, "interrupted")
        finally:
            delete.kill()
    left = told.partition("; go on: `zonekeeper ledger delete ")[2].removesuffix("`").split()
    assert told.startswith(f"{30 - len(left)} of 30 are deleted; go on: ")
    assert {*left} == {*numbers} & {*done(address, "list").decode().split()}
    assert done(address, "delete", *left, "--yes").count(b"deleted ledger ") == len(left) > 0


async def many(address: str, count: int) -> list[LedgerId]:
    """Make ledgers, and leave them."""
    async with clients.connect(address) as client:
        writers = [await client.create() for _ in range(count)]
    return [writer.ledger_id for writer in writers]


@contextmanager
def before_deletions(address: str, of: str, action: str) -> Iterator[sqlite3.Connection]:
    """Have the store do something before it deletes what has such a path; give a way to look."""
    with closing(sqlite3.connect(address.removeprefix("sqlite://"))) as store:
        store.execute(
            "CREATE TRIGGER before_deletion BEFORE DELETE ON node "
            f"WHEN OLD.path LIKE '{of}' BEGIN {action}; END"
        )
        yield store
        store.execute("DROP TRIGGER before_deletion")


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
    with (
        frozen(cluster, list(ZONES)[:2]),
        subprocess.Popen(
            [*INTERRUPTIBLE, "ledger", "recover", number, "--yes", "--metadata", address],
            stderr=subprocess.PIPE,
            text=True,
        ) as recover,
    ):
        try:
            while shown(address, number)["state"] == "OPEN":
                assert recover.poll() is None
            recover.send_signal(signal.SIGINT)
            _, said = recover.communicate(timeout=60)
        finally:
            recover.kill()
    assert recover.returncode == 130
    assert f"ledger {number} may be in recovery now, and its writer fenced; the same" in said
    assert b"CLOSED at entry 2" in done(address, "recover", number, "--yes")


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
        assert told == ["trying again: a is away", "trying again: b is away"]
        trouble.over()
        for at_s in (7, 9, 10):
            fails(at_s, "a")
        assert told[2:] == ["trying again: a is away"]
    fails(20, "c")
    assert len(told) == 3


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
    assert said.startswith(f"trying again: following ledger {number} at 1: ")
    assert all(bookie in said for bookie in ZONES)
