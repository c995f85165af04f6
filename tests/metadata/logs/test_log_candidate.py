"""Candidates and handovers are read as they were written; and stand in the store with a limit."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.metadata.logs.records_of_logs import LOG_ID, NEW
from tests.metadata.parsers import INSTANCE
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.formats.log_record import LogWriterMark
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.logs import log_candidate, log_candidates
from zonekeeper.metadata.logs.log_candidate import (
    CANDIDATE_NAME_LENGTH_MAX,
    CANDIDATES_MAX,
    BadCandidateError,
    CandidateMark,
    HandoverMark,
)
from zonekeeper.metadata.logs.log_candidates import (
    CandidateTaken,
    HandoverUnderWay,
    TooManyCandidatesError,
)
from zonekeeper.placement.base.ids import ZoneName

A, B = ZoneName("a"), ZoneName("b")
MARK: Final = CandidateMark(
    candidacy="1a" * 16,
    log_id=LOG_ID,
    zone=A,
    zones=(A, B),
    address="10.0.0.7:70",
    unknown='{"weight": 3}',
)
WISH: Final = HandoverMark(
    log_id=LOG_ID,
    giver="1a" * 16,
    taker="2b" * 16,
    token="5d41",
    closing_ms=12,
    opening_ms=90,
    unknown='{"why": "upgrade"}',
)
NAME: Final = "orders/eu-1"

Golden = Callable[[str], bytes]


def test_the_golden_nodes_are_read_and_written(golden: Golden) -> None:
    assert log_candidate.parse(golden("log-candidate"), INSTANCE) == MARK
    assert log_candidate.render(MARK, INSTANCE) == golden("log-candidate")
    assert log_candidate.parse_handover(golden("log-handover"), INSTANCE) == WISH
    assert log_candidate.render_handover(WISH, INSTANCE) == golden("log-handover")


def test_a_handover_is_read_as_it_was_written_at_each_step() -> None:
    asked = replace(WISH, closing_ms=None, opening_ms=None)
    closed = log_candidate.closed(asked, 12)
    opened = log_candidate.opened(closed, 90)
    assert opened == WISH
    for one in (asked, closed, opened):
        raw = log_candidate.render_handover(one, INSTANCE)
        assert log_candidate.parse_handover(raw, INSTANCE) == one


def changed(raw: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(raw), **fields}).encode()


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"candidacy": "x"}, Flaw.BAD_TEXT),
        ({"log": "7"}, Flaw.BAD_TEXT),
        ({"zone": 7}, Flaw.WRONG_TYPE),
        ({"zones": []}, Flaw.WRONG_TYPE),
        ({"zones": "ab"}, Flaw.WRONG_TYPE),
        ({"zones": ["a", 7]}, Flaw.WRONG_TYPE),
        ({"zones": ["a"] * 101}, Flaw.TOO_LARGE),
        ({"address": "y" * 1_001}, Flaw.TOO_LARGE),
    ],
)
def test_each_kind_of_damage_is_named(fields: dict[str, object], flaw: Flaw) -> None:
    raw = log_candidate.render(MARK, INSTANCE)
    with pytest.raises(MalformedError) as caught:
        log_candidate.parse(changed(raw, **fields), INSTANCE)
    assert caught.value.flaw is flaw


def test_a_newer_or_foreign_node_is_refused() -> None:
    for raw, parse in (
        (log_candidate.render(MARK, INSTANCE), log_candidate.parse),
        (log_candidate.render_handover(WISH, INSTANCE), log_candidate.parse_handover),
    ):
        with pytest.raises(UnsupportedError):
            parse(changed(raw, format=2), INSTANCE)
        with pytest.raises(ForeignRecordError):
            parse(raw, "another")


@pytest.mark.parametrize("name", ["", "a/b", ".a", "é", "x" * (CANDIDATE_NAME_LENGTH_MAX + 1)])
def test_a_text_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadCandidateError, match="cannot be a candidate's name"):
        log_candidate.node(name)


def test_a_candidate_is_told_from_other_nodes() -> None:
    assert log_candidate.name_of(log_candidate.node("host-1")) == "host-1"
    for other in ("handover", "candidate.", "candidate.a b", "cursor.billing"):
        assert log_candidate.name_of(other) is None


def test_a_record_names_the_candidate_that_claimed_it() -> None:
    mark = LogWriterMark(token="x", zone=A, candidate="host-1", candidacy="1a" * 16)
    record = replace(NEW, epoch=1, writer=mark)
    raw = log_record_format.render(record, INSTANCE)
    assert log_record_format.parse(raw, INSTANCE) == record
    plain = log_record_format.render(
        replace(NEW, epoch=1, writer=LogWriterMark(token="x")), INSTANCE
    )
    assert b"candida" not in plain, "an earlier program's record stays as it is"


# ── in the store ──


async def test_a_log_has_so_many_candidates(cluster: Cluster) -> None:
    session = cluster.store.session.id
    assert session is not None
    for number in range(CANDIDATES_MAX):
        mark = replace(MARK, candidacy=f"{number:032x}")
        await log_candidates.stand(cluster, NAME, f"host-{number}", mark, session)
    with pytest.raises(TooManyCandidatesError, match="100 candidates, and may have 100"):
        await log_candidates.stand(cluster, NAME, "one-more", MARK, session)
    again = replace(MARK, candidacy=f"{7:032x}", zones=(A,))
    await log_candidates.stand(cluster, NAME, "host-7", again, session)
    look = await log_candidates.look(cluster, NAME, LOG_ID)
    assert len(look.candidates) == CANDIDATES_MAX
    [seven] = [one for one in look.candidates if one.name == "host-7"]
    assert seven.mark == again, "it has other zones now"
    with pytest.raises(CandidateTaken):
        await log_candidates.stand(cluster, NAME, "host-7", MARK, session)


async def test_the_folder_goes_with_the_last_candidate(cluster: Cluster) -> None:
    session = cluster.store.session.id
    assert session is not None
    await log_candidates.stand(cluster, NAME, "host-1", MARK, session)
    other = replace(MARK, candidacy="3c" * 16)
    await log_candidates.stand(cluster, NAME, "host-2", other, session)
    await log_candidates.leave(cluster, NAME, "host-1", other.candidacy)
    assert len((await log_candidates.look(cluster, NAME, LOG_ID)).candidates) == 2
    await log_candidates.leave(cluster, NAME, "host-1", MARK.candidacy)
    await log_candidates.leave(cluster, NAME, "host-1", MARK.candidacy)
    [left] = (await log_candidates.look(cluster, NAME, LOG_ID)).candidates
    assert left.name == "host-2"
    await log_candidates.leave(cluster, NAME, "host-2", other.candidacy)
    assert not await cluster.store.children(log_candidates.top(cluster))


async def test_a_handover_is_that_of_one_program(cluster: Cluster) -> None:
    session = cluster.store.session.id
    assert session is not None
    await log_candidates.stand(cluster, NAME, "host-1", MARK, session)
    asked = replace(WISH, closing_ms=None, opening_ms=None)
    await log_candidates.ask(cluster, NAME, asked)
    with pytest.raises(HandoverUnderWay):
        await log_candidates.ask(cluster, NAME, replace(asked, token="another"))
    for token, told in (("another", None), (asked.token, 12)):
        await log_candidates.tell(cluster, NAME, token, lambda mark: log_candidate.closed(mark, 12))
        found = (await log_candidates.look(cluster, NAME, LOG_ID)).handover
        assert found is not None
        assert found.closing_ms == told
    await log_candidates.take_back(cluster, NAME, "another")
    assert (await log_candidates.look(cluster, NAME, LOG_ID)).handover is not None
    await log_candidates.take_back(cluster, NAME, asked.token)
    assert (await log_candidates.look(cluster, NAME, LOG_ID)).handover is None
    await log_candidates.tell(cluster, NAME, asked.token, lambda mark: mark)


async def test_those_of_another_incarnation_are_left_out(cluster: Cluster) -> None:
    session = cluster.store.session.id
    assert session is not None
    await log_candidates.stand(cluster, NAME, "host-1", MARK, session)
    await log_candidates.ask(cluster, NAME, WISH)
    look = await log_candidates.look(cluster, NAME, "9f" * 16)
    assert look.candidates == ()
    assert look.handover is None
