"""Each request for a ledger by each role that has ledgers, owner and key, over both transports.

The owner decides before the key does: who is not the owner hears nothing of the key.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.support.certificates import Authorities, of_role
from tests.wire.identity.secured_world import WAYS, secured
from tests.wire.link.reference_bookie import Disk, Ledger, ReferenceBookie
from tests.wire.link.test_keys import CHANGES, LEDGER, LOOKS, WRONG_KEY
from tests.wire.link.worlds import BOOKIE, KEY, Outcomes, Writer
from zonekeeper.wire.contract.links import BookieLink
from zonekeeper.wire.formats import errors, proofs
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Flags
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity import rights
from zonekeeper.wire.identity.callers import OwnerRule
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.identity.rights import Grant, Operation

MINE, ANOTHERS, NOBODYS = "mine", "another's", "nobody's"
KEYS: Final[dict[str, MasterKey | None]] = {
    "no key": None,
    "the key of no password": proofs.KEY_WITHOUT_PASSWORD,
    "another's key": WRONG_KEY,
    "the key": KEY,
}
_CALLS: Final[dict[Operation, Callable[[BookieLink, MasterKey], Awaitable[None]]]] = {
    Operation.FENCE: CHANGES["fence"],
    Operation.FENCING_READ: CHANGES["fencing read"],
    Operation.OPEN: CHANGES["open"],
}
_LOOKS: Final = {
    Operation.READ: LOOKS["read"],
    Operation.READ_LAC: LOOKS["read_lac"],
    Operation.TAIL: LOOKS["tail"],
    Operation.LIST_ENTRIES: LOOKS["list_entries"],
    Operation.FORCE: LOOKS["force"],
}


async def _written(link: BookieLink, operation: Operation) -> errors.ProtocolError | None:
    """Open with the key, write one item, and give its refusal."""
    writer, outcomes = Writer(LEDGER, 1), Outcomes()
    lane = await link.open_fragment(writer.opening(), outcomes)
    if operation is Operation.WRITE_LAC:
        lane.write_lac(writer.lac(0))
    else:
        recovers = operation is Operation.RECOVERY_APPEND
        lane.append(writer.frame(b"x", flags=Flags.RECOVERY if recovers else Flags.PLAIN))
    await outcomes.all_of(1)
    lane.close()
    return outcomes.failures.get(0)


async def _refused(
    link: BookieLink, operation: Operation, key: MasterKey | None
) -> errors.ProtocolError | None:
    try:
        if operation in _LOOKS:
            await _LOOKS[operation](link, key)
        elif operation in _CALLS:
            assert key is not None
            await _CALLS[operation](link, key)
        else:
            return await _written(link, operation)
    except (errors.NotPermitted, errors.UnauthorizedAccess) as error:
        return error
    return None


def asked(operation: Operation) -> dict[str, MasterKey | None]:
    """Give the keys with which an operation can be asked for."""
    if operation in _LOOKS:
        return KEYS
    if operation in _CALLS:
        return {name: key for name, key in KEYS.items() if key is not None}
    return {"the key": KEY}  # the opening before has shown it


def wanted(role: Role, operation: Operation, whose: str, key: MasterKey | None) -> type | None:
    """Give the error that the tables of rights and of keys demand."""
    grant = rights.grant(role, operation)
    if grant is Grant.NO or (grant is Grant.OWN and whose == ANOTHERS):
        return errors.NotPermitted
    return None if key == KEY else errors.UnauthorizedAccess


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whose", [MINE, ANOTHERS, NOBODYS])
@pytest.mark.parametrize("role", [Role.CLIENT, Role.ADMIN, Role.AUTORECOVERY])
async def test_the_owner_and_the_key_both_count(
    role: Role, whose: str, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    bookie = ReferenceBookie(BOOKIE, Disk())
    bookie.wants_keys = True
    bookie.disk.owners[LEDGER] = {
        MINE: f"{role.value}/{role.value}-1",
        ANOTHERS: f"{role.value}/another",
        NOBODYS: "",
    }[whose]
    async with (
        secured(bookie_files, bookie=bookie, owners=OwnerRule.ON) as served,
        served.linked(way, of_role(authorities.ours, role)) as link,
    ):
        for operation in Operation:
            if operation not in rights.OWNED:
                continue
            for name, key in asked(operation).items():
                before = bookie.disk.ledgers[LEDGER] = Ledger(KEY)
                before.packets |= {at: bytes(one) for at, one in Writer(LEDGER).frame(b"mine")}
                refused = await _refused(link, operation, key)
                told = (operation, name, str(refused))
                error = wanted(role, operation, whose, key)
                assert (None if refused is None else type(refused)) is error, told
                if refused is not None:
                    assert (refused.retryable, refused.maybe_applied) == (False, False), told
                    assert not before.fenced, told
                    assert len(before.packets) == 1, told
                    assert before.explicit_lac is None, told


def test_every_operation_about_a_ledger_is_asked_for() -> None:
    writes = {Operation.APPEND, Operation.RECOVERY_APPEND, Operation.WRITE_LAC}
    assert {*_LOOKS, *_CALLS, *writes} == rights.OWNED
