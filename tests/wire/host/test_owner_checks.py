"""The owner of a ledger decides as long as something is asked: when the map changes, and once told.

What one connection or one stream remembers of owners ends with what it was remembered for.
"""

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.wire.host.test_serving import ByHand
from tests.wire.link.reference_bookie import Disk, Ledger, ReferenceBookie
from tests.wire.link.worlds import KEY, Writer
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.contract.inlets import Inlet
from zonekeeper.wire.contract.service import TailUpdate
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.host import methods, serving
from zonekeeper.wire.host.access import Access, Guard
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.host.owning import OwnedLedgers
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.identity.principals import PeerNames
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.running import audit_log
from zonekeeper.wire.running.audit_log import AuditLog

ALICE = PeerNames(common_name="alice")
LEDGER = LedgerId(7)


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """A map by which the caller is the owner of the ledger."""
    file = tmp_path / "names"
    file.write_text("cn alice client alice\n")
    return file


def access(names: Path, rule: OwnerRule = OwnerRule.ON) -> Access:
    audit = AuditLog(lambda: 0.0)
    file = NameMapFile(names)
    return Access(Enforcement.ON, instance="here", names=file, audit=audit, owners=rule)


def renamed(names: Path, text: str, rights: Access) -> None:
    names.write_text(text)
    rights.look()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == audit_log.NAME]
    return [(line["operation"], line["outcome"]) for line in lines]


def owned_bookie(owner: str) -> ReferenceBookie:
    bookie = ReferenceBookie(BookieId("rack-a-0"), Disk())
    bookie.disk.ledgers[LEDGER] = Ledger(KEY)
    bookie.disk.owners[LEDGER] = owner
    return bookie


async def test_a_tail_ends_when_its_caller_is_not_the_owner_any_more(names: Path) -> None:
    rights, told_of = access(names), asyncio.Queue[TailUpdate]()

    async def updates(
        host: Host, asked: service.TailRequest, _: Guard
    ) -> AsyncGenerator[TailUpdate, None]:
        while True:
            yield await told_of.get()

    tail = dataclasses.replace(methods.TAIL, serve=updates)
    request = service.TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1
    )
    following = tail.serve_bytes(
        Host(owned_bookie("client/alice"), access=rights),
        rights.guard(ALICE, "h:1"),
        methods.TAIL.request.encode(request),
    )
    told_of.put_nowait(TailUpdate(last_add_confirmed=EntryId(3), frames=()))
    assert await anext(following)
    renamed(names, "cn alice client alice-2\n", rights)
    told_of.put_nowait(TailUpdate(last_add_confirmed=EntryId(4), frames=()))
    with pytest.raises(errors.NotPermitted, match=r"client/alice-2 asks for tail of ledger 7"):
        await anext(following)
    assert rights.figures.of_owners == {("tail", "client", "refused"): 1}


def test_a_connection_whose_caller_becomes_a_client_is_asked_for_the_owner(
    names: Path,
) -> None:
    """Autorecovery is not asked; the same certificate as a client is, on the same connection."""
    names.write_text("cn alice autorecovery alice\n")
    rights = access(names)
    guard = rights.guard(ALICE, "h:1")
    assert guard.judge(Operation.READ, LEDGER) is None
    renamed(names, "cn alice client alice\n", rights)
    judge = guard.judge(Operation.READ, LEDGER)
    assert judge is not None
    assert judge("client/alice") is None
    assert isinstance(judge("client/bob"), errors.NotPermitted)
    renamed(names, "cn alice client bob\n", rights)
    assert judge("client/bob") is None, "a judge decides by the present map"
    assert isinstance(judge("client/alice"), errors.NotPermitted)


def test_writes_to_an_open_ledger_follow_the_map_too(names: Path) -> None:
    rights, openings = access(names), {0: LEDGER}
    owned = OwnedLedgers(rights.guard(ALICE, "h:1"), openings)
    judge = owned.judge(0, LEDGER)
    assert judge is not None
    assert judge("client/alice") is None
    owned.opened(0, LEDGER)
    for operation in (Operation.APPEND, Operation.RECOVERY_APPEND, Operation.WRITE_LAC):
        assert owned.refusal(operation, LEDGER) is None
    renamed(names, "cn alice client alice-2\n", rights)
    for operation in (Operation.APPEND, Operation.RECOVERY_APPEND, Operation.WRITE_LAC):
        assert isinstance(owned.refusal(operation, LEDGER), errors.NotPermitted)
    assert owned.refusal(Operation.APPEND, LedgerId(8)) is None, "nobody opened it"
    owned.forget(LEDGER)
    assert len(owned) == 0


@pytest.mark.parametrize("rule", OwnerRule)
def test_where_rights_are_off_no_owner_is_asked_for(rule: OwnerRule, names: Path) -> None:
    """No caller is known then, so each would be refused; the metric says that, too."""
    rights = Access(Enforcement.OFF, instance="here", names=NameMapFile(names), owners=rule)
    guard = rights.guard(None, "h:1")
    assert rights.owners is OwnerRule.OFF
    for operation in Operation:
        assert guard.judge(operation, LEDGER) is None
        assert guard.owner_refusal(operation, LEDGER, "client/bob") is None


@pytest.mark.parametrize(("rule", "lines"), [(OwnerRule.WARN, 1), (OwnerRule.ON, 3)])
async def test_a_fence_of_anothers_ledger_is_told_once_and_a_warning_once_a_connection(
    rule: OwnerRule, lines: int, names: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rights = access(names, rule)
    host, guard = Host(owned_bookie("client/bob"), access=rights), rights.guard(ALICE, "h:1")
    outcome = "refused" if rule is OwnerRule.ON else "warned"
    refusals: list[errors.NotPermitted] = []
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            try:
                with guard.asked(Operation.FENCE, LEDGER):
                    await host.check_owner(guard, Operation.FENCE, LEDGER)
            except errors.NotPermitted as refusal:
                refusals.append(refusal)
    assert len(refusals) == (3 if rule is OwnerRule.ON else 0)
    assert not any(one.retryable or one.maybe_applied for one in refusals)
    assert told(caplog).count(("fence", outcome)) == lines
    assert told(caplog).count(("fence", "done")) == (3 if rule is OwnerRule.WARN else 0)
    assert len(told(caplog)) == lines + (3 if rule is OwnerRule.WARN else 0)
    assert rights.figures.of_owners == {("fence", "client", outcome): 3}


class AskedBookie(ReferenceBookie):
    """A bookie that notes for which ledgers it was asked for the owner."""

    def __init__(self) -> None:
        super().__init__(BookieId("rack-a-0"), Disk())
        self.disk.ledgers[LEDGER] = Ledger(KEY)
        self.asked: list[tuple[bool, int]] = []

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        self.asked.append((also_unknown, create_token))
        return await super().owner(ledger_id, also_unknown=also_unknown)


async def test_the_bookie_hears_which_ledger_a_fence_means(names: Path) -> None:
    """By its create token, on both ways to fence; so an id that is used again is no old ledger."""
    rights, bookie = access(names), AskedBookie()
    host, guard = Host(bookie, access=rights), rights.guard(ALICE, "h:1")
    asked = messages.FenceCall(ledger_id=LEDGER, master_key=KEY, create_token=41)
    await methods.FENCE.serve_bytes(host, guard, methods.FENCE.request.encode(asked))
    assert bookie.asked == [(True, 41)]
    pipe = ByHand()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(host.serve_reads(pipe, guard=guard))
        await pipe.answers()
        for number, key in enumerate((KEY, None)):
            read = carriers.Read(
                number=number,
                ledger_id=LEDGER,
                first=EntryId(0),
                last=EntryId(0),
                max_bytes=1,
                fence_key=key,
                create_token=42,
            )
            pipe.put(read)
            await pipe.answers()
        pipe.coming.put_nowait(None)
    assert bookie.asked[1:] == [(True, 42), (False, 42)]


class ByHandBookie(ReferenceBookie):
    """A bookie whose openings are answered by a test."""

    def __init__(self, owner: str) -> None:
        super().__init__(BookieId("rack-a-0"), Disk())
        self.owner_of_all = owner
        self.replies: service.Replies | None = None
        #: Set: judges wait in ``late``, as while metadata is read.
        self.reads_metadata = False
        self.late: list[errors.OwnerJudge] = []
        #: The numbers of what may be answered with an ack.
        self.taken: list[int] = []

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        self.replies = replies
        for item in items:
            if isinstance(item, carriers.Open) and item.judge is not None:
                if self.reads_metadata:
                    self.late.append(item.judge)
                    continue
                refusal = item.judge(self.owner_of_all)
                if refusal is not None:
                    replies.refused(item.number, refusal)
                    continue
            self.taken.append(item.number)

    def ack(self, number: int) -> None:
        assert self.replies is not None
        self.replies.acked([number])

    def refuse(self, number: int) -> None:
        assert self.replies is not None
        self.replies.refused(number, errors.UnauthorizedAccess("another key"))


class OpenOutlet:
    """An outlet that always has room, and keeps what is put."""

    has_room = True

    def __init__(self) -> None:
        self.items: list[carriers.Item] = []

    def put(self, message: bytes) -> None:
        self.items += carriers.parse(message)

    def hold(self) -> None:
        raise AssertionError("there is room")

    def go_on(self) -> None:
        raise AssertionError("nothing was held")

    async def refused(self, number: int) -> int | None:
        """Give the code with which an item was refused; None: it was not."""
        await asyncio.sleep(0)  # refusals leave at the end of the turn
        refusals = [one for one in self.items if isinstance(one, carriers.Refused)]
        return next((one.code for one in refusals if one.number == number), None)


class AdminsStream:
    """A stream of an admin, who may open ledgers of all, and appends to none of another."""

    def __init__(
        self,
        names: Path,
        owner: str,
        limits: HostLimits | None = None,
        rule: OwnerRule = OwnerRule.ON,
    ) -> None:
        names.write_text("cn alice admin alice\n")
        self.rights = access(names, rule)
        self.bookie, self.outlet = ByHandBookie(owner), OpenOutlet()
        self.host = Host(self.bookie, limits or HostLimits(), access=self.rights)
        self.next = 0

    def appending(self) -> AbstractContextManager[Inlet]:
        return self.host.appending(self.outlet, 1, self.rights.guard(ALICE, "h:1"))

    def open(self, inlet: Inlet, writer: Writer) -> int:
        return self._put(inlet, lambda n: carriers.Open(number=n, opening=writer.opening()))

    async def appended(self, inlet: Inlet, writer: Writer) -> int | None:
        """Append an entry, and give the code of its refusal."""
        frame = writer.frame(b"x")
        return await self.outlet.refused(
            self._put(inlet, lambda n: carriers.Append(number=n, frame=frame))
        )

    def _put(self, inlet: Inlet, made: Callable[[int], carriers.Item]) -> int:
        number, self.next = self.next, self.next + 1
        inlet.taken(carriers.build([made(number)]))
        return number


REFUSED = errors.NotPermitted("").code
NOT_OPEN = errors.NotOpened("").code


@pytest.mark.parametrize("first_ends", ["before", "after"])
async def test_an_opening_that_is_refused_takes_no_owner_from_one_that_is_not(
    first_ends: str, names: Path
) -> None:
    """Both are under way at once, and are answered in either order."""
    stream, writer = AdminsStream(names, "client/bob"), Writer(7)
    with stream.appending() as inlet:
        first, second = stream.open(inlet, writer), stream.open(inlet, writer)
        if first_ends == "before":
            stream.bookie.ack(first)
            stream.bookie.refuse(second)
        else:
            stream.bookie.refuse(second)
            stream.bookie.ack(first)
        assert await stream.appended(inlet, writer) == REFUSED
    assert stream.bookie.taken == [first, second]


async def test_the_owner_of_an_opening_that_opened_nothing_is_not_the_next_ledger_s(
    names: Path,
) -> None:
    """The ledger was forgotten, or its opening refused; then the id is used again by nobody."""
    stream, writer = AdminsStream(names, "client/bob"), Writer(7)
    with stream.appending() as inlet:
        stream.bookie.ack(stream.open(inlet, writer))
        assert await stream.appended(inlet, writer) == REFUSED
        under_way = stream.open(inlet, writer)
        stream.host.forgotten(writer.ledger_id)
        stream.bookie.ack(under_way)
        assert await stream.appended(inlet, writer) == NOT_OPEN
        stream.bookie.refuse(stream.open(inlet, writer))
        assert await stream.appended(inlet, writer) == NOT_OPEN
        stream.bookie.owner_of_all = ""
        stream.bookie.ack(stream.open(inlet, writer))
        assert await stream.appended(inlet, writer) is None


@pytest.mark.parametrize("is_acked", [True, False], ids=["open", "under way"])
async def test_what_another_caller_opened_must_be_opened_again(
    names: Path, *, is_acked: bool
) -> None:
    """Autorecovery opens ledgers of all, and was asked for no owner; as a client it is asked."""
    stream, writer = AdminsStream(names, "client/bob"), Writer(7)
    renamed(names, "cn alice autorecovery alice\n", stream.rights)
    with stream.appending() as inlet:
        opening = stream.open(inlet, writer)
        if is_acked:
            stream.bookie.ack(opening)
        renamed(names, "cn alice client alice\n", stream.rights)
        assert await stream.appended(inlet, writer) == NOT_OPEN
        if not is_acked:
            stream.bookie.ack(opening)
            assert await stream.appended(inlet, writer) == NOT_OPEN
        assert await stream.outlet.refused(stream.open(inlet, writer)) == REFUSED


@pytest.mark.parametrize("rule", [OwnerRule.ON, OwnerRule.OFF])
async def test_a_map_that_changes_nothing_for_a_caller_closes_no_ledger(
    names: Path, rule: OwnerRule
) -> None:
    """Nor does one where no owner matters."""
    stream, writer = AdminsStream(names, "", rule=rule), Writer(7)
    with stream.appending() as inlet:
        stream.bookie.ack(stream.open(inlet, writer))
        renamed(names, "cn alice admin alice\ncn carol client carol\n", stream.rights)
        assert await stream.appended(inlet, writer) is None
        renamed(names, "cn alice admin alice-2\n", stream.rights)
        closed = NOT_OPEN if rule is OwnerRule.ON else None
        assert await stream.appended(inlet, writer) == closed


async def test_the_last_opening_says_whose_a_ledger_is(names: Path) -> None:
    """A bookie that was read again may know another ledger under the id."""
    stream, writer = AdminsStream(names, ""), Writer(7)
    with stream.appending() as inlet:
        for owner, code in (("", None), ("client/bob", REFUSED), ("", None)):
            stream.bookie.owner_of_all = owner
            stream.bookie.ack(stream.open(inlet, writer))
            assert await stream.appended(inlet, writer) == code


async def test_a_stream_remembers_owners_of_the_ledgers_alone_that_it_has_open(
    names: Path,
) -> None:
    stream = AdminsStream(names, "client/bob", HostLimits(open_ledgers_max=2))
    with stream.appending() as inlet:
        for number in range(5):
            stream.bookie.ack(stream.open(inlet, Writer(number)))
        assert isinstance(inlet, serving._AppendStream)
        assert set(inlet._owned._by_ledger) == set(inlet._opened) == {3, 4}
        stream.bookie.refuse(stream.open(inlet, Writer(5)))
        under_way = stream.open(inlet, Writer(6))
        stream.host.forgotten(LedgerId(6))
        stream.bookie.ack(under_way)
        stream.bookie.reads_metadata = True
        under_way = stream.open(inlet, Writer(6))
        stream.host.forgotten(LedgerId(6))
        (judge,) = stream.bookie.late
        assert judge("client/bob") is None, "an admin may open it"
        stream.bookie.ack(under_way)
        assert not inlet._owned._found
        assert await stream.appended(inlet, Writer(3)) == REFUSED
        assert await stream.appended(inlet, Writer(2)) == NOT_OPEN
        stream.bookie.reads_metadata = False
        stream.open(inlet, Writer(7))
        assert inlet._owned._found
        renamed(names, "cn alice admin alice-2\n", stream.rights)
        assert await stream.appended(inlet, Writer(3)) == NOT_OPEN
        assert not inlet._owned._by_ledger
        assert not inlet._owned._found
