"""The table of rights: complete, default deny, and no way of asking a bookie is outside of it."""

import dataclasses
import enum
from types import UnionType
from typing import get_args

from tests.wire.link.worlds import KEY, Writer
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.contract.service import BookieService
from zonekeeper.wire.formats import carriers, frames
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.host import methods
from zonekeeper.wire.identity import operations, rights
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.identity.rights import Grant, Operation
from zonekeeper.wire.pb import bookie_pb2 as pb

WRITER = Writer(7)
READ = carriers.Read(
    number=0, ledger_id=LedgerId(7), first=EntryId(0), last=EntryId(0), max_bytes=1
)
#: An item of each kind that a client may send.
ITEMS: dict[Operation, carriers.Request | carriers.Read] = {
    Operation.OPEN: carriers.Open(number=0, opening=WRITER.opening()),
    Operation.APPEND: carriers.Append(number=0, frame=WRITER.frame(b"x")),
    Operation.RECOVERY_APPEND: carriers.Append(
        number=0, frame=WRITER.frame(b"x", flags=Flags.RECOVERY)
    ),
    Operation.WRITE_LAC: carriers.WriteLac(number=0, ledger_id=LedgerId(7), packet=WRITER.lac(0)),
    Operation.READ: READ,
    Operation.FENCING_READ: carriers.Read(
        number=0,
        ledger_id=LedgerId(7),
        first=EntryId(0),
        last=EntryId(0),
        max_bytes=1,
        fence_key=KEY,
    ),
}
OF_CALLS = [each.operation for each in methods.CALLS]
OF_CALLS += [each.operation for each in methods.SUBSCRIPTIONS]


def test_every_method_of_the_service_is_a_stream_or_has_an_operation_of_its_own() -> None:
    named = {each.name for each in methods.CALLS}
    named |= {each.name for each in methods.SUBSCRIPTIONS}
    streams = {kind.value for kind in StreamKind}
    assert set(pb.DESCRIPTOR.services_by_name["Bookie"].methods_by_name) == named | streams
    assert len(set(OF_CALLS)) == len(OF_CALLS)


def test_every_item_that_a_client_may_send_has_an_operation() -> None:
    from_a_bookie = {carriers.Hello, carriers.Acked, carriers.Refused, carriers.ReadAnswer}
    assert isinstance(carriers.Item, UnionType)
    assert {type(item) for item in ITEMS.values()} == set(get_args(carriers.Item)) - from_a_bookie
    assert {each: operations.of_item(item) for each, item in ITEMS.items()} == {
        each: each for each in ITEMS
    }


def test_a_read_that_fences_by_a_proof_of_the_key_is_a_fencing_read() -> None:
    proven = dataclasses.replace(READ, proof=bytes(20), fences=True)
    assert operations.of_item(proven) is Operation.FENCING_READ
    assert operations.of_item(dataclasses.replace(proven, fences=False)) is Operation.READ


def test_every_flag_of_a_frame_was_thought_of() -> None:
    """A new flag may make an append another operation: decide, and add it here."""
    assert {flag.name for flag in Flags} == {"RECOVERY", "DEFERRED_SYNC"}
    for flags in (Flags.RECOVERY | Flags.DEFERRED_SYNC, Flags.DEFERRED_SYNC, Flags.PLAIN):
        frame = WRITER.frame(b"x", flags=flags)
        for each in (frame, frames.parse(frame.data())):
            recovers = Flags.RECOVERY in flags
            assert operations.of_item(carriers.Append(number=0, frame=each)) is (
                Operation.RECOVERY_APPEND if recovers else Operation.APPEND
            )


def test_every_operation_is_one_of_a_call_or_of_an_item() -> None:
    """But for the one that is asked over HTTP."""
    assert {*OF_CALLS, *ITEMS, Operation.LOOK} == set(Operation)
    assert Operation.LOOK not in {*OF_CALLS, *ITEMS}
    assert not {*OF_CALLS} & ITEMS.keys()


def test_every_method_of_a_bookie_can_be_asked_by_an_operation() -> None:
    """``append`` and ``read`` are asked on streams, by several operations each."""
    asked = {each.value.replace("-", "_") for each in OF_CALLS}
    of_a_bookie = {name for name in vars(BookieService) if not name.startswith("_")}
    assert of_a_bookie == asked | {"append", "read", "owner", "boot_epoch", "bookie_id"}


def test_each_operation_has_a_bit_and_a_meaning_of_its_own() -> None:
    assert sorted(each.bit for each in Operation) == [1 << n for n in range(len(Operation))]
    assert (1 << len(Operation)) - 1 == rights.ALL_BITS
    assert list(rights.MEANINGS) == list(Operation)
    assert len(set(rights.MEANINGS.values())) == len(Operation)


def test_what_is_not_granted_is_denied() -> None:
    assert [rights.grant(Role.BOOKIE, each) for each in Operation] == [Grant.NO] * len(Operation)
    assert rights.best((), Operation.INFO) is Grant.NO
    assert rights.granted_bits(()) == 0


def test_every_operation_is_granted_to_some_role_and_to_the_fewest() -> None:
    assert all(rights.roles_for(each) for each in Operation)
    only = {each: rights.roles_for(each) for each in Operation if len(rights.roles_for(each)) == 1}
    assert only == {
        Operation.END_LIMBO: (Role.AUTORECOVERY,),
        Operation.COMPACT: (Role.ADMIN,),
    }
    assert rights.roles_for(Operation.LOOK) == (Role.ADMIN, Role.MONITOR)
    assert rights.roles_for(Operation.SET_READ_ONLY) == (Role.AUTORECOVERY, Role.ADMIN)


def test_only_repair_works_on_ledgers_without_their_keys() -> None:
    about_bookies = {
        Operation.INFO,
        Operation.SET_READ_ONLY,
        Operation.END_LIMBO,
        Operation.COMPACT,
        Operation.LOOK,
    }
    by_role_alone = {
        role
        for role in Role
        for each in set(Operation) - about_bookies
        if rights.grant(role, each) is Grant.YES
    }
    assert by_role_alone == {Role.AUTORECOVERY}


def test_the_most_that_one_of_several_roles_is_granted_counts() -> None:
    both = (Role.MONITOR, Role.CLIENT)
    assert rights.best(both, Operation.READ) is Grant.OWN
    assert rights.best((Role.CLIENT, Role.ADMIN), Operation.READ) is Grant.KEY
    assert rights.best((Role.CLIENT, Role.AUTORECOVERY), Operation.READ) is Grant.YES
    of_client = rights.granted_bits((Role.CLIENT,))
    assert rights.granted_bits(both) == of_client | Operation.LOOK.bit


def test_a_role_and_an_operation_are_enums_with_texts_that_people_see() -> None:
    for kind in (Role, Operation):
        assert issubclass(kind, enum.Enum)
        assert all(str(each.value) == str(each.value).lower() for each in kind)
