"""Access: decided once for a caller, anew when the map changes; counted, and told to the audit."""

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.service import TailUpdate
from zonekeeper.wire.formats import errors, exposition
from zonekeeper.wire.host import access as accesses
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.access import Access, Guard
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity import name_map
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.identity.name_map import NameMap
from zonekeeper.wire.identity.principals import PeerNames
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.running import audit_log
from zonekeeper.wire.running.audit_log import AuditLog

CLIENT = PeerNames(uris=("zonekeeper://any/client/a",))
ALICE = PeerNames(common_name="alice")
LEDGER = LedgerId(7)


def access(enforcement: Enforcement = Enforcement.ON, names: Path | None = None) -> Access:
    file = None if names is None else NameMapFile(names)
    return Access(enforcement, instance="here", names=file, audit=AuditLog(lambda: 0.0))


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(one.getMessage()) for one in caplog.records if one.name == audit_log.NAME]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield


def test_what_is_allowed_costs_no_count_and_no_line(caplog: pytest.LogCaptureFixture) -> None:
    rights = access()
    guard = rights.guard(CLIENT, "h:1")
    for _ in range(3):
        guard.check(Operation.APPEND, LEDGER)
    assert not rights.figures.counts
    assert told(caplog) == []


def test_a_refusal_is_counted_and_told_each_time(caplog: pytest.LogCaptureFixture) -> None:
    rights = access()
    guard = rights.guard(CLIENT, "h:1")
    for _ in range(2):
        with pytest.raises(errors.NotPermitted):
            guard.check(Operation.COMPACT)
    assert rights.figures.counts == {("compact", "client", "refused"): 2}
    assert (
        told(caplog)
        == [
            {
                "operation": "compact",
                "outcome": "refused",
                "principal": "client/a",
                "peer": "h:1",
                "reason": "client/a asks for compact, which needs the role admin",
            }
        ]
        * 2
    )


def test_a_warning_is_counted_each_time_and_told_once_a_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights = access(Enforcement.WARN)
    for peer in ("h:1", "h:2"):
        guard = rights.guard(ALICE, peer)
        for _ in range(3):
            guard.check(Operation.FENCE, LEDGER)
            guard.check(Operation.APPEND, LEDGER)
    assert rights.figures.counts == {
        ("fence", "none", "warned"): 6,
        ("append", "none", "warned"): 6,
    }
    assert [(one["operation"], one["outcome"], one["peer"]) for one in told(caplog)] == [
        ("fence", "warned", "h:1"),
        ("append", "warned", "h:1"),
        ("fence", "warned", "h:2"),
        ("append", "warned", "h:2"),
    ]
    assert all("nothing was done" not in str(one["reason"]) for one in told(caplog))


def outcomes(guard: Guard, operation: Operation) -> None:
    with guard.asked(operation, LEDGER):
        pass
    with pytest.raises(errors.Fenced), guard.asked(operation, LEDGER):
        raise errors.Fenced("no")
    with pytest.raises(KeyboardInterrupt), guard.asked(operation, LEDGER):
        raise KeyboardInterrupt


def test_the_audit_hears_how_each_change_and_fence_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = access().guard(CLIENT, "h:1")
    outcomes(guard, Operation.FENCE)
    outcomes(guard, Operation.READ)
    assert [(one["operation"], one["outcome"], one["ledger"]) for one in told(caplog)] == [
        ("fence", "done", 7),
        ("fence", "Fenced", 7),
        ("fence", "cut off", 7),
    ]


def test_a_refused_change_has_one_line_and_is_not_done(caplog: pytest.LogCaptureFixture) -> None:
    guard = access().guard(ALICE, "h:1")
    with pytest.raises(errors.NotPermitted), guard.asked(Operation.FENCE, LEDGER):
        pytest.fail("it was done")
    assert [one["outcome"] for one in told(caplog)] == ["refused"]


def test_a_changed_map_counts_at_once_for_connections_that_are_there(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("cn alice client alice\n")
    rights = access(names=names)
    guard = rights.guard(ALICE, "h:1")
    guard.check(Operation.READ)
    assert str(guard.caller) == "client/alice"
    names.write_text("cn alice monitor alice\n")
    guard.check(Operation.READ)
    rights.look()
    with pytest.raises(errors.NotPermitted):
        guard.check(Operation.READ)
    assert str(guard.caller) == "monitor/alice"
    names.write_text("cn alice client alice-2\n")
    assert str(rights.guard(ALICE, "h:2").caller) == "client/alice-2", "a new connection looks"
    guard.check(Operation.READ)


def test_a_changed_map_changes_what_a_warning_was_and_as_which_role_it_counts(
    tmp_path: Path,
) -> None:
    names = tmp_path / "names"
    names.write_text("# nobody yet\n")
    rights = access(Enforcement.NAMED, names)
    guard = rights.guard(ALICE, "h:1")
    guard.check(Operation.READ)
    for role in ("monitor", "operator"):
        names.write_text(f"cn alice {role} alice\n")
        rights.look()
        with pytest.raises(errors.NotPermitted):
            guard.check(Operation.READ)
    assert rights.figures.counts == {
        ("read", "none", "warned"): 1,
        ("read", "monitor", "refused"): 1,
        ("read", "operator", "refused"): 1,
    }


def test_a_map_that_cannot_be_used_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = tmp_path / "names"
    names.write_text("cn alice client alice\n")
    rights = access(names=names)
    guard = rights.guard(ALICE, "h:1")
    names.write_text("cn alice\n")
    for _ in range(3):
        rights.look()
        guard.check(Operation.READ)
    assert caplog.text.count("line 1: 2 words") == 1
    names.unlink()
    rights.look()
    guard.check(Operation.READ)
    assert "No such file" in caplog.text
    names.write_text("# nobody\n")
    rights.look()
    with pytest.raises(errors.NotPermitted):
        guard.check(Operation.READ)


def test_a_map_that_cannot_be_used_is_read_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gRPC each call looks at the file, and a large one takes long to be read."""
    names = tmp_path / "names"
    names.write_text("cn alice client alice\n")
    rights, parsed, parse = access(names=names), list[str](), name_map.parse

    def counted(text: str) -> NameMap:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(name_map, "parse", counted)
    names.write_text("cn alice\n")
    for _ in range(3):
        rights.guard(ALICE, "h:1").check(Operation.READ)
    assert parsed == ["cn alice\n"]
    names.write_text("cn alice monitor alice\n")
    with pytest.raises(errors.NotPermitted):
        rights.guard(ALICE, "h:1").check(Operation.READ)


async def test_a_tail_ends_when_its_caller_may_not_follow_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The map shuts out a stolen certificate, on the connections that are there, too."""
    names = tmp_path / "names"
    names.write_text("cn alice client alice\n")
    rights, told_of = access(names=names), asyncio.Queue[service.TailUpdate]()

    async def updates(
        host: Host, asked: service.TailRequest, guard: Guard
    ) -> AsyncGenerator[TailUpdate, None]:
        assert host.access is rights
        assert guard.caller.principals
        assert asked.ledger_id == LEDGER
        while True:
            yield await told_of.get()

    tail = dataclasses.replace(methods.TAIL, serve=updates)
    request = service.TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1
    )
    host = Host(ReferenceBookie(BookieId("rack-a-0"), Disk()), access=rights)
    following = tail.serve_bytes(
        host, rights.guard(ALICE, "h:1"), methods.TAIL.request.encode(request)
    )
    for text in ("cn alice client alice\n", "cn alice admin alice\n"):
        names.write_text(text)
        rights.look()
        told_of.put_nowait(TailUpdate(last_add_confirmed=EntryId(3), frames=()))
        assert await anext(following)
    names.write_text("cn alice monitor alice\n")
    rights.look()
    told_of.put_nowait(TailUpdate(last_add_confirmed=EntryId(4), frames=()))
    with pytest.raises(errors.NotPermitted, match="monitor/alice asks for tail"):
        await anext(following)
    assert [one["outcome"] for one in told(caplog)] == ["refused"]
    assert rights.figures.counts == {("tail", "monitor", "refused"): 1}

    warned = access(Enforcement.WARN, names)
    following = tail.serve_bytes(
        Host(ReferenceBookie(BookieId("rack-a-0"), Disk()), access=warned),
        warned.guard(ALICE, "h:1"),
        methods.TAIL.request.encode(request),
    )
    rights = warned
    for text in ("cn alice monitor alice\n", "cn alice operator alice\n"):
        names.write_text(text)
        warned.look()
        for _ in range(3):  # a tail counts once, and not for each update
            told_of.put_nowait(TailUpdate(last_add_confirmed=EntryId(3), frames=()))
            assert await anext(following)
    assert warned.figures.counts == {
        ("tail", "monitor", "warned"): 1,
        ("tail", "operator", "warned"): 1,
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"cn alice", "names: line 1: 2 words"),
        (b"cn \xff client a", "codec can't decode"),
        (b"#" * ((1 << 20) + 1), "larger than 1048576 bytes"),
    ],
)
def test_a_map_that_cannot_be_used_at_the_start_is_refused(
    content: bytes, why: str, tmp_path: Path
) -> None:
    names = tmp_path / "names"
    names.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        NameMapFile(names)
    with pytest.raises(FileNotFoundError):
        NameMapFile(tmp_path / "nowhere")


def test_only_so_many_callers_are_remembered() -> None:
    rights = access()
    for number in range(3 * accesses.CALLERS_MAX):
        rights.guard(PeerNames(common_name=str(number)), "h:1")
    assert len(rights._known) <= accesses.CALLERS_MAX
    rights.guard(CLIENT, "h:1").check(Operation.READ)


def test_the_metrics_say_how_strict_access_is_and_what_was_refused() -> None:
    rights = access(Enforcement.NAMED)
    rights.guard(ALICE, "h").check(Operation.FENCE)
    with pytest.raises(errors.NotPermitted):
        rights.guard(CLIENT, "h").check(Operation.COMPACT)
    shown = exposition.render(rights.figures.families(rights.enforcement, rights.owners))
    assert 'zonekeeper_bookie_access{enforcement="named"} 1' in shown
    assert 'zonekeeper_bookie_access{enforcement="on"} 0' in shown
    name = "zonekeeper_bookie_access_refusals_total"
    assert f'{name}{{operation="fence",role="none",outcome="warned"}} 1' in shown
    assert f'{name}{{operation="compact",role="client",outcome="refused"}} 1' in shown


def test_without_access_everything_is_allowed_and_nothing_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Access().guard(None, "h:1")
    for operation in Operation:
        guard.check(operation)
    assert told(caplog) == []


def test_an_owner_in_doubt_refuses_only_where_owners_are_held() -> None:
    away = errors.MetadataAway("the store is away")
    for rule, wanted in ((OwnerRule.ON, away), (OwnerRule.WARN, None), (OwnerRule.OFF, None)):
        rights = Access(Enforcement.NAMED, instance="here", owners=rule)
        guard = rights.guard(CLIENT, "h:1")
        assert guard.owner_refusal(Operation.READ, LEDGER, away) is wanted
        assert (guard.judge(Operation.READ, LEDGER) is None) is (rule is OwnerRule.OFF)
        assert not rights.figures.of_owners
