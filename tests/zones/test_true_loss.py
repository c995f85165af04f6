"""What is gone for good is let go by a person, and what is planned is declared by one."""

import dataclasses

import pytest

from tests.zones import copies
from tests.zones.world import A, B, C, Ground, World, world
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import Permission, Person, RefusedError, Token
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.replication.gate import permitting
from zonekeeper.replication.gate.permitting import GateRequest
from zonekeeper.shell.reaching import reaching

pytestmark = pytest.mark.processes

ANNA = Person(name="anna", reason="the building burns")
WHO = ("--by", ANNA.name, "--reason", ANNA.reason)
RELEASE_A = ("autorecovery", "release", "--zone", A, "--yes", *WHO)
SILENT = BookieId("bk-c-2")
#: Longer than a shell asks a bookie that says nothing, on a busy machine; none may be longer here.
PATIENT_MS = 60_000


async def patient(made: World, bookie: BookieId) -> None:
    """Let a bookie have a session that lasts longer than those of the others.

    It is as long as the policy said when the bookie started.
    """
    cluster = made.client.cluster
    usual = await policy_store.read(cluster)
    assert usual is not None
    lasting = dataclasses.replace(
        usual,
        zone_watch=dataclasses.replace(usual.zone_watch, session_timeout_ms=PATIENT_MS),
        repair=dataclasses.replace(usual.repair, bookie_recovery_delay_ms=2 * PATIENT_MS),
    )
    standing = await policy_store.write(cluster, lasting, replaces=usual.version)
    made.bookies.stop(bookie)
    await made.start([bookie])
    await policy_store.write(cluster, usual, replaces=standing.version)


async def test_a_zone_that_is_gone_is_repaired_once_a_person_lets_it_go(ground: Ground) -> None:
    async with world(ground) as made:
        cluster = made.client.cluster
        await patient(made, SILENT)
        made.kill_zone(A)
        held = await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        had = await copies.every(cluster)
        said = await made.shell("autorecovery", "release", "--zone", "d", "--yes", *WHO, code=2)
        assert "there is no zone d" in said
        said = await made.shell("autorecovery", "release", "--zone", B, "--yes", *WHO, code=2)
        assert "nothing of zone b is held" in said
        request = GateRequest(zone=A, person=ANNA, wall_ms=reaching.wall_ms())
        told, policy = reaching.chronicle(cluster, ANNA.name), made.client.bookies.policy
        with pytest.raises(RefusedError, match="look at what is held now"):
            await permitting.release(cluster, request, Token("a-0"), policy, told)

        made.freeze_bookie(SILENT)
        said = await made.shell(*RELEASE_A, code=2)
        made.bookies.thaw(SILENT)
        assert "whether there is room is unknown" in said
        assert made.gates.zone(A).gate.token == held.gate.token
        assert made.gates.zone(A).gate.permission is Permission.HELD
        await made.has_moved(0)
        said = await made.shell(*RELEASE_A)
        assert "zone a: released, released by anna" in said
        await made.unnamed(*made.members(A))
        assert await made.moved() > 0
        repaired = await copies.newcomers(cluster, had)
        assert await copies.check_there(made.client, repaired) > 0

        await made.start(made.members(A))
        await made.calm()
        assert {one.zone for one in await copies.every(cluster)} >= {B, C}


async def test_planned_work_is_no_loss_until_its_time_is_over(ground: Ground) -> None:
    unit = ("--zone", C, "--upgrade-domain", "ud-1", *WHO)
    worked_on = BookieId("bk-c-1")
    async with world(ground) as made:
        await made.shell("maintenance", "start", "--for", "1h", *unit)
        made.kill(worked_on)
        await made.kill_leaders()
        await made.evaluations()
        assert made.gates.states(C)[-1] is Observation.UP
        assert made.gates.zone(C).evidence.total == 2
        await made.has_moved(0)
        await made.start([worked_on])
        await made.shell("maintenance", "end", *unit)
        await made.calm()
        await made.has_moved(0)

        await made.holds(worked_on)
        await made.shell("maintenance", "start", "--for", "5s", *unit)
        made.kill(worked_on)
        await made.zone_is(C, Observation.DEGRADED)
        await made.has_moved(0)
        await made.unnamed(worked_on)
        assert await made.moved() > 0
