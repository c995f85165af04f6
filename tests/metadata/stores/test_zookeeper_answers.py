"""What a ZooKeeper client makes of each answer, and of none: yes, no or unknown.

The client is the real one, over a socket. The server is scripted: what it received, and did not
answer, is certain.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.serialization import Exists, GetData, Transaction

from tests.support.scripted_zookeeper import CUT, SESSION, ScriptedZooKeeper, refused
from tests.support.stores import PATIENT
from zonekeeper.metadata.store import errors
from zonekeeper.metadata.store.store import Check, MetadataStore, Put
from zonekeeper.metadata.stores.opening import open_store

PATH = "/ledgers/a"

#: Of these a server says certainly that it did nothing.
REFUSALS: dict[int, type[errors.StoreError]] = {
    kazoo_errors.NoNodeError.code: errors.NoNodeError,
    kazoo_errors.NodeExistsError.code: errors.NodeExistsError,
    kazoo_errors.BadVersionError.code: errors.VersionConflictError,
    kazoo_errors.NotEmptyError.code: errors.NotEmptyError,
    kazoo_errors.NoChildrenForEphemeralsError.code: errors.BadPathError,
    kazoo_errors.BadArgumentsError.code: errors.BadPathError,
    kazoo_errors.NoAuthError.code: errors.UnauthorizedError,
    kazoo_errors.InvalidACLError.code: errors.UnauthorizedError,
    kazoo_errors.AuthFailedError.code: errors.UnauthorizedError,
}
#: Codes that no version of ZooKeeper has today; a later one may.
NEW_CODES = (-1_017, -217)
KNOWN_CODES = tuple(sorted(code for code in kazoo_errors.EXCEPTIONS if code))
OTHERS = [code for code in (*KNOWN_CODES, *NEW_CODES) if code not in REFUSALS]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedZooKeeper]:
    scripted = ScriptedZooKeeper(lambda kind, body: CUT)
    await scripted.open()
    yield scripted
    await scripted.close()


@pytest.fixture
async def store(server: ScriptedZooKeeper) -> AsyncIterator[MetadataStore]:
    opened = await open_store(f"zk://127.0.0.1:{server.port}/ledgers", PATIENT)
    assert opened.session.id == SESSION
    yield opened
    await opened.close()


async def test_a_connection_that_ends_behind_a_write_leaves_it_unknown(
    server: ScriptedZooKeeper, store: MetadataStore
) -> None:
    with pytest.raises(errors.StoreUnavailableError) as broke:
        await store.put(PATH, b"x", version=3)

    assert broke.value.maybe_applied
    assert broke.value.retryable
    assert server.transactions == 1, "what may have been applied is not sent again"


async def test_a_session_that_ends_behind_a_write_leaves_it_unknown(
    server: ScriptedZooKeeper, store: MetadataStore
) -> None:
    server.expired = True
    server.script = lambda kind, body: (kazoo_errors.SessionExpiredError.code, b"")

    with pytest.raises(errors.SessionLostError) as lost:
        await store.put(PATH, b"x", version=3)

    assert lost.value.maybe_applied
    assert lost.value.retryable


@pytest.mark.parametrize("code", OTHERS)
async def test_what_an_answer_does_not_say_is_unknown(
    server: ScriptedZooKeeper, store: MetadataStore, code: int
) -> None:
    server.script = lambda kind, body: (code, b"")

    with pytest.raises(errors.StoreError) as told:
        await store.put(PATH, b"x", version=3)

    assert told.value.maybe_applied
    assert told.value.retryable
    assert server.transactions == 1


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_says_that_nothing_was_written(
    server: ScriptedZooKeeper, store: MetadataStore, code: int
) -> None:
    bystander = kazoo_errors.RuntimeInconsistency.code
    server.script = lambda kind, body: refused(bystander, code, bystander)

    there = Check(path=PATH, version=3)
    with pytest.raises(REFUSALS[code]) as told:
        await store.commit([there, Put(path=f"{PATH}/b", value=b"x", version=1), there])

    assert not told.value.maybe_applied


@pytest.mark.parametrize("code", [code for code in OTHERS if code not in (-2, 0)])
async def test_a_transaction_of_which_a_part_failed_was_not_applied(
    server: ScriptedZooKeeper, store: MetadataStore, code: int
) -> None:
    server.script = lambda kind, body: refused(code)

    with pytest.raises(errors.StoreError) as told:
        await store.put(PATH, b"x", version=3)

    assert not told.value.maybe_applied
    assert told.value.retryable


@pytest.mark.parametrize("code", [kazoo_errors.ConnectionLoss.code, *NEW_CODES])
async def test_a_read_is_asked_again_behind_any_such_answer(
    server: ScriptedZooKeeper, store: MetadataStore, code: int
) -> None:
    answers = [(code, b""), CUT, (code, b""), (kazoo_errors.NoNodeError.code, b"")]
    asked: list[int] = []

    def script(kind: int, body: bytes) -> tuple[int, bytes] | None:
        asked.append(kind)
        return answers.pop(0) if answers else (kazoo_errors.NoNodeError.code, b"")

    server.script = script

    assert await store.get(PATH) is None
    assert set(asked) <= {GetData.type, Exists.type}
    assert not answers


async def test_a_code_that_nobody_knows_is_told_and_the_client_lives(
    server: ScriptedZooKeeper, store: MetadataStore
) -> None:
    server.script = lambda kind, body: (NEW_CODES[0], b"")
    with pytest.raises(errors.StoreUnavailableError, match=str(NEW_CODES[0])):
        await store.put(PATH, b"x", version=3)
    session = store.session

    server.script = lambda kind, body: (
        refused(kazoo_errors.BadVersionError.code) if kind == Transaction.type else (0, b"")
    )
    with pytest.raises(errors.VersionConflictError):
        await store.put(PATH, b"x", version=3)
    assert store.session == session


async def test_a_lost_connection_is_one_line_of_ours_and_none_of_kazoo(
    server: ScriptedZooKeeper, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo warns of each attempt, several times a second, while a server is away."""
    with caplog.at_level(logging.WARNING):
        for tries in (1, 2):
            with pytest.raises(errors.StoreUnavailableError):
                await store.put(PATH, b"x", version=3)
            assert server.transactions == tries
            async with asyncio.timeout(30):
                while len(caplog.records) < tries:  # noqa: ASYNC110 kazoo's thread sees the loss
                    await asyncio.sleep(0.01)
    lines = [(each.name, each.levelname, each.getMessage()) for each in caplog.records]
    assert [name for name, _, _ in lines if "kazoo" in name] == []
    ours = [text for _, level, text in lines if level == "WARNING"]
    assert len(ours) == 2, lines
    assert all("the connection is lost; connecting again" in text for text in ours)


async def test_an_end_that_was_wanted_is_no_lost_connection(
    server: ScriptedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        opened = await open_store(f"zk://127.0.0.1:{server.port}/ledgers", PATIENT)
        await opened.close()
    assert caplog.messages == []


async def test_what_kazoo_says_is_heard_where_it_is_asked_for(
    server: ScriptedZooKeeper, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(errors.StoreUnavailableError):
        await store.put(PATH, b"x", version=3)
    theirs = [each for each in caplog.records if "kazoo" in each.name]
    assert theirs
    assert {each.levelname for each in theirs} == {"DEBUG"}
