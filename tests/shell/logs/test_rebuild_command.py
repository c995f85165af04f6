"""``zonekeeper log rebuild``: a record that was removed, and a password, against real bookies."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.log.logging_lab import overwrite
from tests.log.sessions.test_rebuilding import lose
from tests.shell.log_world import call, data, done, filled, lines, refused
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log import LogMessage, connect
from zonekeeper.metadata.logs import logs

pytestmark = pytest.mark.processes


class Dies(Exception):
    """It ends a writer."""


def lost(address: str, name: str) -> None:
    """Remove the record of a log, as a wrong command would."""

    async def remove() -> None:
        async with connect(address) as log:
            await lose(log, name)

    asyncio.run(remove())


def record_bytes(address: str, name: str, put: bytes | None = None) -> bytes:
    """Read the node of a log's record; or put an older state there, as an import does."""

    async def read() -> bytes:
        async with connect(address) as log:
            cluster = log.client.cluster
            if put is not None:
                await overwrite(cluster, logs.path(cluster, name), put)
            node = await cluster.store.get(logs.path(cluster, name), sync=True)
            assert node is not None
            return node.value

    return asyncio.run(read())


def payloads(address: str, *words: str) -> bytes:
    return done(address, "read", *words)


def test_a_record_that_was_removed_is_made_anew_and_nothing_is_lost(address: str) -> None:
    filled(address, "lost/a", 25, "--rotate-messages", "10")
    filled(address, "lost/b", 3)
    before, whole = data(address, "show", "lost/a"), payloads(address, "lost/a")
    lost(address, "lost/a")
    assert "there is no log" in refused(address, "show", "lost/a")

    found = data(address, "rebuild", "lost/a", "--dry-run")
    assert "there is no log" in refused(address, "show", "lost/a"), "a dry run changes nothing"
    assert "--yes" in refused(address, "rebuild", "lost/a")
    rebuilt = data(address, "rebuild", "lost/a", "--yes")

    ledgers = before["ledgers"]
    assert isinstance(ledgers, list)
    assert found["found"] == [{"id": before["id"], "ledgers": [one["ledger"] for one in ledgers]}]
    assert (rebuilt["id"], rebuilt["leftOut"]) == (before["id"], [])
    assert payloads(address, "lost/a") == whole
    assert data(address, "show", "lost/a")["ledgers"] == ledgers
    done(address, "append", "lost/a", given=b"one more")
    assert [one["sequence"] for one in lines(address, "read", "lost/a")] == list(range(26))


def test_a_record_of_an_older_export_gets_the_ledgers_that_came_later(address: str) -> None:
    filled(address, "lost/e", 15, "--rotate-messages", "10")
    older = record_bytes(address, "lost/e")
    for number in range(3):
        done(address, "append", "lost/e", given=b"later %d" % number)
    before, whole = data(address, "show", "lost/e"), payloads(address, "lost/e")
    record_bytes(address, "lost/e", older)
    assert len(lines(address, "read", "lost/e")) == 15

    done(address, "rebuild", "lost/e", "--yes")

    assert payloads(address, "lost/e") == whole
    after = data(address, "show", "lost/e")
    assert (after["ledgers"], after["rules"]) == (before["ledgers"], before["rules"])
    done(address, "append", "lost/e", given=b"one more")
    assert [one["sequence"] for one in lines(address, "read", "lost/e")] == list(range(19))


def test_of_several_logs_one_is_named_and_nothing_to_rebuild_is_refused(address: str) -> None:
    filled(address, "lost/c", 3)
    first = str(data(address, "show", "lost/c")["id"])
    lost(address, "lost/c")
    filled(address, "lost/c", 2)
    lost(address, "lost/c")
    said = refused(address, "rebuild", "lost/c", "--yes")
    assert "ledgers of 2 logs of the name lost/c are there" in said
    assert first in said
    done(address, "rebuild", "lost/c", "--yes", "--id", first)
    assert len(lines(address, "read", "lost/c")) == 3
    assert "there is nothing to rebuild it from" in refused(
        address, "rebuild", "lost/none", "--yes"
    )
    assert "cannot be a log's name" in refused(address, "rebuild", "a//b", "--yes")


def test_a_log_is_written_read_and_rebuilt_with_its_password(address: str, tmp_path: Path) -> None:
    file, wrong = tmp_path / "secret", tmp_path / "wrong"
    file.write_bytes(b"open sesame\n")
    wrong.write_bytes(b"close sesame\n")
    with_password = ("--password-file", str(file))
    done(address, "create", "lost/d", "--rotate-messages", "2")
    done(address, "append", "lost/d", *with_password, given=b"a\nb\nc")
    assert payloads(address, "lost/d", *with_password) == b"a\nb\nc\n"
    env = {"ZONEKEEPER_LEDGER_PASSWORD": "open sesame"}
    assert call(address, "read", "lost/d", env=env).stdout_bytes == b"a\nb\nc\n"
    before = data(address, "show", "lost/d", *with_password)
    for words, tried in (((), "none was given"), (("--password-file", str(wrong)), str(wrong))):
        for command in (
            ("read", "lost/d"),
            ("tail", "lost/d"),
            ("append", "lost/d", "--payload", "x"),
            ("trim", "lost/d", "--to", "1", "--yes"),
            ("rebuild", "lost/d", "--yes"),
        ):
            said = refused(address, *command, *words)
            assert "has another password" in said, command
            assert tried in said, command
            assert "sesame" not in said, command
    assert data(address, "show", "lost/d", *with_password) == before
    lost(address, "lost/d")
    done(address, "rebuild", "lost/d", "--yes", *with_password)
    assert payloads(address, "lost/d", *with_password) == b"a\nb\nc\n"
    done(address, "delete", "lost/d", "--yes")


def test_show_with_a_wrong_password_says_so_and_gives_no_blame_to_bookies(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"open sesame\n")
    done(address, "create", "lost/f")

    async def write() -> None:
        async with (
            connect(address, ClientConfig(password=b"open sesame")) as log,
            log.writer("lost/f") as writer,
        ):
            await writer.append_and_wait(LogMessage(payload=b"x"))
            raise Dies  # a writer's block that raises leaves the log open

    with pytest.raises(Dies):
        asyncio.run(write())
    known = call(address, "show", "lost/f", "--password-file", str(file))
    assert "end:       sequence 1: 1 message kept" in known.stdout
    assert "password" not in known.output
    wrong = call(address, "show", "lost/f")
    assert wrong.exit_code == 0, wrong.output
    assert "end:       unknown: the open ledger has another password" in wrong.stdout
    told = " ".join(wrong.stdout.split())  # a table wraps what is wide
    assert "its entries are unknown without its password" in told
    assert "none was given: use --password-file" in wrong.stderr
    assert "gave no answer" not in wrong.output
    found = json.loads(call(address, "show", "lost/f", "-o", "json").stdout)
    assert (found["end"], found["wrongPassword"], found["state"]) == (None, True, "open")
    dry = call(
        address, "append", "lost/f", "--dry-run", "--payload", "y", *("--password-file", str(file))
    )
    assert "sequence 1: 1 message kept" in dry.stdout, "append looks with the password that it has"
