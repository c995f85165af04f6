"""Each operation by each role, over both transports: exactly what the table grants is done.

What a role may not do never reaches the bookie, and the refusal names the caller, the operation and
the roles that may.
"""

import pytest

from tests.support.certificates import Authorities, of_role
from tests.wire.identity.asking import ASKS, WitnessBookie, refusal
from tests.wire.identity.secured_world import INSTANCE, WAYS, secured
from tests.wire.link.reference_bookie import Ledger
from tests.wire.link.worlds import BOOKIE, KEY, opened
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import digests, errors
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.identity import rights
from zonekeeper.wire.identity.callers import Enforcement, OwnerRule
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.identity.rights import Grant, Operation


def test_every_operation_is_asked_for() -> None:
    """``LOOK`` is asked over HTTP: tests/wire/socket/test_page_rights.py."""
    assert [*ASKS, Operation.LOOK] == list(Operation)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", Role)
async def test_a_role_may_do_what_the_table_grants_and_nothing_else(
    role: Role, way: str, authorities: Authorities
) -> None:
    bookie, shown = WitnessBookie(), of_role(authorities.ours, role, hosts=(BOOKIE,))
    granted = {each for each in ASKS if rights.grant(role, each) is not Grant.NO}
    async with (
        secured(of_role(authorities.ours, Role.BOOKIE, hosts=(BOOKIE,)), bookie=bookie) as served,
        served.transported(way, shown) as over,
    ):
        for operation in ASKS:
            refused = await refusal(over, operation)
            assert (refused is None) is (operation in granted), operation
            if refused is not None:
                assert f"{role.value}/{role.value}-1 asks for {operation.value}" in str(refused)
                assert all(each.value in str(refused) for each in rights.roles_for(operation))
                assert not refused.retryable
                assert not refused.maybe_applied
        assert bookie.reached == granted
        counts = served.access.figures.counts
        assert {key: n for key, n in counts.items() if key[0] not in ("open",)} == {
            (each.value, role.value, "refused"): 1
            for each in ASKS
            if each not in granted and each is not Operation.OPEN
        }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("enforcement", Enforcement)
async def test_a_certificate_without_a_role_is_warned_of_until_access_is_on(
    enforcement: Enforcement,
    way: str,
    authorities: Authorities,
    bookie_files: TlsFiles,
    client_files: TlsFiles,
) -> None:
    bookie = WitnessBookie()
    async with (
        secured(bookie_files, enforcement, bookie=bookie) as served,
        served.transported(way, client_files) as over,
    ):
        for operation in ASKS:
            refused = await refusal(over, operation)
            assert (refused is not None) is (enforcement is Enforcement.ON), operation
        counts = served.access.figures.counts
    assert bookie.reached == (set() if enforcement is Enforcement.ON else set(ASKS))
    outcome = {Enforcement.OFF: None, Enforcement.ON: "refused"}.get(enforcement, "warned")
    assert {key[1:] for key in counts} == (set() if outcome is None else {("none", outcome)})
    assert outcome is None or {key[0] for key in counts} == {each.value for each in ASKS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("enforcement", Enforcement)
async def test_a_certificate_with_a_role_is_held_to_it_unless_access_only_warns(
    enforcement: Enforcement, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    bookie, held = WitnessBookie(), enforcement in (Enforcement.NAMED, Enforcement.ON)
    async with (
        secured(bookie_files, enforcement, bookie=bookie) as served,
        served.transported(way, of_role(authorities.ours, Role.MONITOR)) as over,
    ):
        assert (await refusal(over, Operation.FENCE) is not None) is held
        assert await refusal(over, Operation.INFO) is None
    assert (Operation.FENCE in bookie.reached) is not held


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("instance", [INSTANCE, "another"])
async def test_a_principal_of_another_cluster_is_nobody_here(
    instance: str, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    async with (
        secured(bookie_files) as served,
        served.transported(way, of_role(authorities.ours, Role.ADMIN, instance=instance)) as over,
    ):
        refused = await refusal(over, Operation.COMPACT)
    assert (refused is None) is (instance == INSTANCE)
    if refused is not None:
        assert f"is of another cluster; this one is {INSTANCE}" in str(refused)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", [Role.CLIENT, Role.AUTORECOVERY, Role.ADMIN])
async def test_no_role_stands_in_for_a_key_that_a_bookie_asks_for(
    role: Role, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    ledger, wrong = LedgerId(7), digests.master_key(b"another")
    async with (
        secured(bookie_files) as served,
        served.linked(way, of_role(authorities.ours, Role.CLIENT)) as owner,
        served.linked(way, of_role(authorities.ours, role)) as link,
    ):
        await opened(owner, ledger)
        with pytest.raises(errors.UnauthorizedAccess):
            await link.fence(ledger, wrong)
        assert not served.bookie.disk.ledgers[ledger].fenced
        await link.fence(ledger, KEY)
        assert served.bookie.disk.ledgers[ledger].fenced


@pytest.mark.parametrize("way", WAYS)
async def test_a_key_does_not_stand_in_for_a_role(
    way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    async with (
        secured(bookie_files) as served,
        served.linked(way, of_role(authorities.ours, Role.OPERATOR)) as link,
    ):
        with pytest.raises(errors.NotPermitted):
            await link.fence(LedgerId(7), KEY)
        with pytest.raises(errors.NotPermitted):
            await opened(link, 7)
        assert not served.bookie.disk.ledgers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("owner", ["client/client-1", "admin/admin-1", "client/another"])
@pytest.mark.parametrize("role", [Role.CLIENT, Role.ADMIN, Role.AUTORECOVERY])
async def test_an_owned_ledger_is_for_its_owner_and_the_roles_that_work_for_others(
    role: Role, owner: str, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    bookie, mine = WitnessBookie(), f"{role.value}/{role.value}-1"
    bookie.disk.owners = dict.fromkeys(map(LedgerId, range(100, 100 + len(Operation))), owner)
    async with (
        secured(bookie_files, bookie=bookie, owners=OwnerRule.ON) as served,
        served.transported(way, of_role(authorities.ours, role)) as over,
    ):
        for operation in ASKS:
            granted = rights.grant(role, operation)
            is_others = granted is Grant.OWN and owner != mine
            try:
                refused = await refusal(over, operation)
            except errors.NotOpened:
                # Its ledger's opening was refused, and so it is not open on the stream.
                assert is_others or owner != mine
                continue
            # The ledger of a call that only looks is not there: nothing of it is to be protected.
            leaves_traces = operation in WRITES | {Operation.FENCE, Operation.FENCING_READ}
            wanted = granted is Grant.NO or (is_others and leaves_traces)
            assert (refused is not None) is wanted, (operation, str(refused))
            if refused is not None and is_others:
                assert f"which is of {owner}" in str(refused)
                assert not refused.retryable
                assert not refused.maybe_applied


WRITES = {
    Operation.OPEN,
    Operation.APPEND,
    Operation.RECOVERY_APPEND,
    Operation.WRITE_LAC,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", OwnerRule)
async def test_reads_of_a_ledger_of_another_follow_the_rule(
    rule: OwnerRule, way: str, authorities: Authorities, bookie_files: TlsFiles
) -> None:
    looks = [Operation.READ, Operation.READ_LAC, Operation.TAIL, Operation.FORCE]
    bookie = WitnessBookie()
    for number in range(100, 100 + len(Operation)):
        bookie.disk.ledgers[LedgerId(number)] = Ledger(KEY)
        bookie.disk.owners[LedgerId(number)] = "client/another"
    async with (
        secured(bookie_files, bookie=bookie, owners=rule) as served,
        served.transported(way, of_role(authorities.ours, Role.CLIENT)) as over,
    ):
        for operation in looks:
            assert (await refusal(over, operation) is not None) is (rule is OwnerRule.ON)
        counted = served.access.figures.of_owners
        counted_as_roles = served.access.figures.counts
    outcome = {OwnerRule.WARN: "warned", OwnerRule.ON: "refused"}.get(rule)
    assert dict(counted) == (
        {} if outcome is None else {(each.value, "client", outcome): 1 for each in looks}
    )
    assert not counted_as_roles
    assert (bookie.reached & set(looks) == set(looks)) is (rule is not OwnerRule.ON)
