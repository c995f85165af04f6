"""The log of a store's session: a line when the connection is lost, and one when it is back."""

import asyncio
import logging

import pytest

from tests.support import virtual_time
from zonekeeper.metadata.store.store import Session, SessionId
from zonekeeper.metadata.store.watching import SessionFeed

ONE, TWO = SessionId(1), SessionId(2)
AWAY = Session(id=ONE, connected=False)
NONE = Session(id=None, connected=False)


def of(session: SessionId) -> Session:
    return Session(id=session, connected=True)


async def told(caplog: pytest.LogCaptureFixture, *sessions: Session) -> list[tuple[str, str]]:
    caplog.set_level(logging.INFO)
    feed = SessionFeed("zk", NONE)
    for session in sessions:
        feed.publish(session)
        await asyncio.sleep(1.5)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@virtual_time.played
async def test_a_first_session_and_an_end_are_no_events(caplog: pytest.LogCaptureFixture) -> None:
    feed = SessionFeed("zk", NONE)
    feed.publish(of(ONE))
    feed.close()
    assert caplog.messages == []


@virtual_time.played
async def test_a_connection_that_comes_back_kept_its_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await told(caplog, of(ONE), AWAY, AWAY, of(ONE)) == [
        ("WARNING", "zk: the connection is lost; connecting again"),
        ("INFO", "zk: connected again after 3.0 s, in the same session"),
    ]
    assert caplog.records[-1].__dict__["same_session"] is True


@virtual_time.played
async def test_a_session_that_was_lost_is_told_with_the_time_without_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = (
        "zk: the session was lost, and its ephemeral nodes with it; a new session has begun after "
        "4.5 s"
    )
    assert await told(caplog, of(ONE), AWAY, NONE, AWAY, of(TWO)) == [
        ("WARNING", "zk: the connection is lost; connecting again"),
        ("WARNING", lost),
    ]
    assert caplog.records[-1].__dict__["same_session"] is False


@virtual_time.played
async def test_a_session_that_ended_while_it_was_connected_is_told_as_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = Session(id=None, connected=True)
    ((level, text),) = await told(caplog, of(ONE), ended, of(TWO))
    assert level == "WARNING"
    assert "the session was lost" in text
    assert text.endswith("after 1.5 s")
