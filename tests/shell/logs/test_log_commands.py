"""``zonekeeper log`` against bookies that run as processes."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell import ledger_world
from tests.shell.ledger_world import ZONES, frozen
from tests.shell.log_world import call, data, done, filled, lines, refused
from tests.support.bookie_processes import BookieProcesses
from tests.support.ready_processes import SHELL
from zonekeeper.log import LogMessage, LogRules, blocking, connect
from zonekeeper.log.formats import batches
from zonekeeper.wire.formats.entries import PAYLOAD_BYTES_MAX

pytestmark = pytest.mark.processes

TEXT = b"first\n\nthird, after an empty one\nlast"
BYTES = b"\x00\xff\x1b[31mred\n"


def sequences(address: str, *words: str) -> list[object]:
    return [one["sequence"] for one in lines(address, "read", *words)]


def test_text_goes_in_and_comes_out(address: str) -> None:
    done(address, "create", "text/a")
    assert (
        done(address, "append", "text/a", given=TEXT)
        .decode()
        .startswith("log text/a: 4 messages from sequence 0, the last is ")
    )
    assert done(address, "read", "text/a") == TEXT + b"\n"
    assert done(address, "tail", "text/a", "--from", "earliest", "--max", "4") == TEXT + b"\n"
    assert done(address, "read", "text/a", "--raw") == TEXT.replace(b"\n", b"")
    done(address, "append", "text/a", given=TEXT)
    found = lines(address, "read", "text/a")
    assert [one["sequence"] for one in found] == list(range(8))
    assert [base64.b64decode(str(one["payload"])) for one in found] == TEXT.split(b"\n") * 2


def test_a_message_has_a_key_and_headers_and_may_be_any_bytes(address: str) -> None:
    done(address, "create", "bytes")
    words = ("--key", os.fsdecode(b"k\xfe"), "--header", "a=1", "--header", "a=2=x")
    answer = data(address, "append", "bytes", "--payload", os.fsdecode(BYTES[1:]), *words)
    [one] = lines(address, "read", "bytes")
    assert base64.b64decode(str(one["payload"])) == BYTES[1:]
    assert base64.b64decode(str(one["key"])) == b"k\xfe"
    pairs = [["a", base64.b64encode(b"1").decode()], ["a", base64.b64encode(b"2=x").decode()]]
    assert one["headers"] == pairs
    assert (one["id"], one["sequence"]) == (answer["lastId"], answer["firstSequence"])
    assert done(address, "read", "bytes") == BYTES[1:] + b"\n"
    shown = done(address, "read", "bytes", "--long").decode()
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 1
    assert r"key=k\xfe a=1 a=2=x  \xff\x1b[31mred\n" in shown


def test_a_file_is_appended(address: str, tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(TEXT)
    done(address, "create", "file")
    assert data(address, "append", "file", str(file))["messages"] == 4
    assert "give one of them" in refused(address, "append", "file", str(file), "--payload", "x")
    assert done(address, "read", "file") == TEXT + b"\n"


def test_reading_begins_and_ends_at_an_id_a_sequence_and_a_time(address: str) -> None:
    filled(address, "places", 25, "--rotate-messages", "10")
    found = lines(address, "read", "places")
    ids = [str(one["id"]) for one in found]
    for place in ("7", ids[7]):
        assert sequences(address, "places", "--from", place) == list(range(7, 25))
        assert sequences(address, "places", "--to", place) == list(range(8))
        assert sequences(address, "places", "--from", place, "--to", "18") == list(range(7, 19))
    assert sequences(address, "places", "--from", "3", "--max", "9") == list(range(3, 12))
    assert sequences(address, "places", "--from", "9", "--to", ids[9]) == [9]
    assert sequences(address, "places", "--from", "25") == []
    # All of a batch have one time; the first batch of a time is where reading begins.
    assert sequences(address, "places", "--from", "2001-01-01T00:00:00Z") == list(range(25))
    assert sequences(address, "places", "--to", "2001-01-01") == []
    assert sequences(address, "places", "--from", "2999-01-01T00:00:00Z") == []
    assert sequences(address, "places", "--to", "2999-01-01T00:00:00+01:00") == list(range(25))


@pytest.mark.parametrize("words", ["--from 26", "--to 25", "--from 0:0:0", "--to 999999:1:0"])
def test_a_place_that_the_log_does_not_have_is_refused(address: str, words: str) -> None:
    name = f"missing/{words.split()[1].replace(':', '-')}"
    filled(address, name, 25)
    said = refused(address, "read", name, *words.split())
    assert any(
        why in said
        for why in ("ahead of its end", "is not one of its ledgers", "has no such message")
    )


def test_an_id_of_another_log_and_one_ahead_of_the_end_are_refused(address: str) -> None:
    filled(address, "ids/a", 3)
    filled(address, "ids/b", 3)
    other = str(lines(address, "read", "ids/a")[1]["id"])
    own = str(lines(address, "read", "ids/b")[2]["id"])
    ledger, entry, index = own.split(":")
    for command in ("read", "tail"):
        assert f"ledger {other.split(':', maxsplit=1)[0]} is not one of its ledgers" in refused(
            address, command, "ids/b", "--from", other
        )
        for ahead in (f"{ledger}:{int(entry) + 5}:0", f"{ledger}:{entry}:{int(index) + 1}"):
            assert "has no such message, or not yet" in refused(
                address, command, "ids/b", "--from", ahead
            )
    assert "is not one of its ledgers" in refused(address, "trim", "ids/b", "--to", other, "--yes")


@pytest.mark.parametrize(
    "words", ["read LOG", "tail LOG", "show LOG", "append LOG --payload x", "set LOG --keep-for 1h",
              "trim LOG --to 1 --yes", "delete LOG --yes"]
)  # fmt: skip
def test_an_unknown_log_and_a_bad_name_are_refused(address: str, words: str) -> None:
    assert "there is no log nobody/made" in refused(
        address, *words.replace("LOG", "nobody/made").split()
    )
    assert "cannot be a log's name" in refused(address, *words.replace("LOG", "a//b").split())


def test_a_log_is_made_once(address: str) -> None:
    done(address, "create", "once")
    assert "there is a log once in" in refused(address, "create", "once")
    assert "cannot be a log's name" in refused(address, "create", "../x")


def test_rules_are_set_shown_and_set_back(address: str) -> None:
    words = ("--quorums", "3/3/2", "--rotate-bytes", "64MiB", "--rotate-after", "30m")
    done(address, "create", "rules", *words, "--keep-for", "7d")
    before = data(address, "show", "rules")["rules"]
    assert isinstance(before, dict)
    assert before["quorums"] == "3/3/2"
    assert before["rotateBytes"] == 64 << 20
    assert before["rotateAfterMs"] == 30 * 60_000
    assert before["keepMs"] == 7 * 86_400_000
    changed = data(
        address, "set", "rules", "--rotate-messages", "10", "--default", "keep-for",
        "--default", "quorums",
    )["rules"]  # fmt: skip
    assert changed == {**before, "rotateMessages": 10, "keepMs": None, "quorums": None}
    assert "--rotate-bytes 67108864" in done(address, "show", "rules").decode()
    assert "give one of them" in refused(
        address, "set", "rules", "--keep-for", "1h", "--default", "keep-for"
    )
    assert "no rule is given" in refused(address, "set", "rules")


@pytest.mark.parametrize(
    "words",
    ["--quorums 1/1/1", "--quorums 2/3/2", "--rotate-bytes 0", "--rotate-bytes 5XB",
     "--rotate-after 0s", "--rotate-messages 0", "--keep-bytes -1", "--keep-for week"],
)  # fmt: skip
def test_rules_that_cannot_be_are_refused(address: str, words: str) -> None:
    refused(address, "create", "never", *words.split())
    assert "there is no log never" in refused(address, "show", "never")


def test_a_log_is_shown_as_it_is(address: str) -> None:
    done(address, "create", "shown")
    new = data(address, "show", "shown")
    assert (new["state"], new["end"], new["messages"], new["ledgers"]) == ("new", 0, 0, [])
    assert new["writer"] is None
    for count in (10, 10, 5):
        done(address, "append", "shown", given=b"x\n" * count)
    found = data(address, "show", "shown")
    assert (found["state"], found["epoch"]) == ("closed", 3)
    assert (found["end"], found["messages"]) == (25, 25)
    writer, ledgers = found["writer"], found["ledgers"]
    assert isinstance(writer, dict)
    assert "zonekeeper log append" in writer["address"]
    assert isinstance(ledgers, list)
    assert sum(one["messages"] for one in ledgers) == 25
    assert [one["sequence"] for one in ledgers] == [0, 10, 20]
    assert all(one["bytes"] > 0 and one["entries"] > 1 for one in ledgers)
    text = done(address, "show", "shown").decode()
    assert "end:       sequence 25: 25 messages kept" in text
    assert str(ledgers[2]["ledger"]) in text


def test_a_long_log_has_pages_which_are_shown_if_asked_for(address: str) -> None:
    with blocking.connect(address) as logs:
        logs.create("pages")
        for _ in range(66):  # each writer has a ledger of its own
            with logs.writer("pages") as writer:
                writer.append(LogMessage(payload=b"x"))
    found, whole = data(address, "show", "pages"), data(address, "show", "pages", "--all")
    assert isinstance(found["ledgers"], list)
    assert isinstance(whole["ledgers"], list)
    assert found["pages"] == 1
    assert len(whole["ledgers"]) == len(found["ledgers"]) + 32
    assert [one["sequence"] for one in whole["ledgers"]] == sorted(
        one["sequence"] for one in whole["ledgers"]
    )
    assert "and 1 page of older ones" in done(address, "show", "pages").decode()


def test_logs_are_listed_by_namespace(address: str) -> None:
    for name in ("listed/a", "listed/b", "listed/deep/c"):
        done(address, "create", name)
    assert sorted(done(address, "list", "listed").decode().split()) == ["listed/a", "listed/b"]
    assert {"listed/a", "listed/deep/c"} <= {str(one["log"]) for one in lines(address, "list")}
    assert done(address, "list", "no/such").decode() == ""
    [one] = lines(address, "list", "listed/deep", "--long")
    assert (one["log"], one["state"], one["epoch"]) == ("listed/deep/c", "new", 0)
    said = done(address, "list", "listed/deep", "--long").decode()
    assert said == "listed/deep/c: new, epoch 0, from the first, 0 ledgers\n"
    assert "cannot be a log's name" in refused(address, "list", "a//b")


def test_a_trim_forgets_what_is_before_a_place(address: str) -> None:
    filled(address, "trimmed", 25, "--rotate-messages", "10")
    before = data(address, "show", "trimmed")["ledgers"]
    assert isinstance(before, list)
    would = data(address, "trim", "trimmed", "--to", "15", "--dry-run")
    assert (would["messages"], would["ledgers"]) == (15, [before[0]["ledger"]])
    assert sequences(address, "trimmed") == list(range(25))
    assert "repeat with --yes" in refused(address, "trim", "trimmed", "--to", "15")
    assert sequences(address, "trimmed") == list(range(25))

    said = done(address, "trim", "trimmed", "--to", "15", "--yes").decode()
    assert said == "trimmed 15 messages of log trimmed and 1 ledger\n"
    assert sequences(address, "trimmed") == list(range(15, 25))
    found = data(address, "show", "trimmed")
    assert (found["startSequence"], found["messages"]) == (15, 10)
    assert found["ledgers"] == before[1:]
    assert before[0]["ledger"] not in map(int, ledger_world.done(address, "list").split())
    said = refused(address, "read", "trimmed", "--from", "3")
    assert "message 3 was trimmed; the earliest that is kept is" in said
    assert data(address, "trim", "trimmed", "--to", "7", "--yes")["messages"] == 0
    assert "ahead of its end" in refused(address, "trim", "trimmed", "--to", "25", "--yes")
    assert sequences(address, "trimmed") == list(range(15, 25))


def test_a_log_is_deleted_if_a_person_says_so(address: str) -> None:
    filled(address, "deleted", 5)
    ledgers = data(address, "delete", "deleted", "--dry-run")["ledgers"]
    assert isinstance(ledgers, list)
    assert "repeat with --yes" in refused(address, "delete", "deleted")
    assert sequences(address, "deleted") == list(range(5))
    done(address, "delete", "deleted", "--yes")
    assert "there is no log deleted" in refused(address, "read", "deleted")
    left = set(map(int, ledger_world.done(address, "list").split()))
    assert not left & set(ledgers)


def test_a_ledger_of_a_log_is_kept_unless_forced(address: str) -> None:
    filled(address, "kept/x", 3)
    ledgers = data(address, "show", "kept/x")["ledgers"]
    assert isinstance(ledgers, list)
    number = str(ledgers[0]["ledger"])
    plain = ledger_world.appended(address, b"a line\n")
    for words in (("delete", plain, number, "--yes"), ("delete", number, "--dry-run")):
        result = ledger_world.call(address, *words)
        assert result.exit_code == 2
        assert f"ledger {number} is of log kept/x; nothing was deleted" in result.stderr
    assert ledger_world.done(address, "read", plain) == b"a line\n"
    assert sequences(address, "kept/x") == [0, 1, 2]
    ledger_world.done(address, "delete", number, "--yes", "--force")
    damaged = call(address, "read", "kept/x")
    assert damaged.exit_code == 1
    assert f"ledger {number} is in the record of log kept/x, and was deleted" in damaged.stderr
    said = ledger_world.call(address, "create", "--custom", "zonekeeper.log=kept/x")
    assert said.exit_code == 2
    assert "is taken" in said.stderr


class Dies(Exception):
    """What ends a writer here, as a kill would."""


def abandoned(address: str, name: str) -> None:
    """Leave a log open, as a writer does that was killed with three messages acknowledged."""

    async def write() -> None:
        async with connect(address) as logs:
            await logs.create(name, LogRules())
            async with logs.writer(name) as writer:
                for number in range(3):
                    await writer.append_and_wait(LogMessage(payload=b"%d" % number))
                raise Dies

    with pytest.raises(Dies):
        asyncio.run(write())


def test_an_open_log_is_taken_only_if_a_person_says_so(address: str) -> None:
    abandoned(address, "open")
    found = data(address, "show", "open")
    assert (found["state"], found["end"]) == ("open", 3)
    ledgers = found["ledgers"]
    assert isinstance(ledgers, list)
    number = str(ledgers[-1]["ledger"])
    assert "repeat with --yes" in refused(address, "append", "open", given=b"3\n")
    would = done(address, "append", "open", "--payload", "3", "--dry-run").decode()
    assert would.endswith("nothing was appended; it would be taken from its writer\n")
    recovery = ledger_world.call(address, "recover", number, "--yes")
    assert recovery.exit_code == 2
    assert "is of log open; nothing was recovered" in recovery.stderr
    assert data(address, "show", "open")["epoch"] == 1
    done(address, "append", "open", "--yes", given=b"3\n")
    assert done(address, "read", "open") == b"0\n1\n2\n3\n"
    assert data(address, "show", "open")["state"] == "closed"


def test_a_message_that_is_too_large_ends_an_append_in_order(address: str, tmp_path: Path) -> None:
    done(address, "create", "large")
    big = tmp_path / "big"
    big.write_bytes(b"0\n" + b"x" * (PAYLOAD_BYTES_MAX + 1))
    said = call(address, "append", "large", str(big))
    assert said.exit_code == 1
    assert f"a line of more than {PAYLOAD_BYTES_MAX} bytes" in said.stderr
    assert "log large: " in said.stderr
    assert "later ones" not in said.stderr
    before = data(address, "show", "large")
    assert before["state"] == "closed"

    big.write_bytes(b"1\n" + b"x" * batches.BODY_BYTES_MAX + b"\n3\n")
    said = call(address, "append", "large", str(big))
    assert said.exit_code == 1
    assert "split it" in said.stderr
    end = before["end"]
    assert f"log large: message {end} is acknowledged\n" in said.stderr
    after = data(address, "show", "large")
    assert (after["state"], after["messages"]) == ("closed", int(str(end)) + 1)


def test_a_message_that_cannot_be_is_refused_before_the_log_is_taken(address: str) -> None:
    done(address, "create", "bad")
    headers = [word for number in range(2_000) for word in ("--header", f"h{number}=x")]
    assert "the limit is 1000" in refused(address, "append", "bad", "--payload", "x", *headers)
    assert "the limit is 1000" in refused(address, "append", "bad", *headers, given=b"x\n")
    assert "write NAME=VALUE" in refused(address, "append", "bad", "--header", "x")
    assert data(address, "show", "bad")["epoch"] == 0


def shell(address: str, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", ledger_world.INTERRUPTIBLE[2], "log", *words, "--metadata", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_tail_follows_a_log_over_its_writers(address: str) -> None:
    filled(address, "followed", 5, "--rotate-messages", "3")
    with shell(address, "tail", "followed", "--from", "4") as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == b"message 4\n"
        for number in range(3):  # each of them is another writer
            text = b"later %d\n" % number
            done(address, "append", "followed", given=text * 4)
            assert [tail.stdout.readline() for _ in range(4)] == [text] * 4
        tail.send_signal(signal.SIGINT)
        assert tail.wait() == 130


def test_a_tail_begins_at_the_end_unless_told_otherwise(address: str) -> None:
    filled(address, "latest", 5)
    with shell(address, "tail", "latest", "--max", "1", "-o", "json") as tail:
        assert tail.stdout is not None
        # The tail does not say when it has begun, so messages come until it has seen one.
        sent = 0
        while tail.poll() is None:
            done(address, "append", "latest", "--payload", f"new {sent}")
            sent += 1
        one = json.loads(tail.stdout.read())
        assert tail.returncode == 0
    assert base64.b64decode(one["payload"]).startswith(b"new ")
    assert one["sequence"] >= 5


def test_an_append_that_loses_its_log_says_how_far_it_came(address: str) -> None:
    done(address, "create", "lost")
    with shell(address, "append", "lost") as first:
        assert first.stdin is not None
        assert first.stderr is not None
        first.stdin.write(b"one\ntwo\n")
        first.stdin.flush()
        while data(address, "show", "lost")["end"] != 2:
            pass
        done(address, "append", "lost", "--yes", "--payload", "three")
        first.stdin.write(b"four\n")
        first.stdin.close()
        said = first.stderr.read().decode()
        assert first.wait() == 1
    assert "another writer" in said
    assert "log lost: messages 0 to 1 are acknowledged; later ones may be in the log" in said
    assert done(address, "read", "lost") == b"one\ntwo\nthree\n"


def test_an_append_that_is_interrupted_says_how_far_it_came(address: str) -> None:
    done(address, "create", "stopped")
    with shell(address, "append", "stopped") as first:
        assert first.stdin is not None
        assert first.stderr is not None
        first.stdin.write(b"one\ntwo\n")
        first.stdin.flush()
        while data(address, "show", "stopped")["end"] != 2:
            pass
        first.send_signal(signal.SIGINT)
        said = first.stderr.read().decode()
        assert first.wait() == 130
    assert "acknowledged" in said
    assert said.endswith("interrupted\n")
    done(address, "append", "stopped", "--yes", "--payload", "three")
    assert done(address, "read", "stopped") == b"one\ntwo\nthree\n"


def test_a_closed_pipe_is_no_error(address: str) -> None:
    done(address, "create", "piped")
    done(address, "append", "piped", given=b"message\n" * 20_000)
    words = f"{' '.join(SHELL)} log read piped --metadata '{address}' | head -1"
    ended = subprocess.run(["/bin/bash", "-o", "pipefail", "-c", words], capture_output=True,
                           check=False)  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"message\n", b"")


def test_a_log_is_shown_while_the_bookies_of_its_open_ledger_are_silent(
    address: str, cluster: BookieProcesses
) -> None:
    abandoned(address, "silent")
    with frozen(cluster, ZONES):
        found = data(address, "show", "silent")
    assert (found["state"], found["end"], found["messages"]) == ("open", None, None)
