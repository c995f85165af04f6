"""While ``tls.paused`` is true nothing is issued, renewed or rotated, and that is told."""

from tests.operator.certificates.test_rotations import BY_ISSUER, OWN, READY, rest, rotate, signs
from tests.operator.resources import SPACE
from tests.operator.scaling.zoned_world import FOUR
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import CERTIFICATES, NODES, SECRETS, Json
from zonekeeper.placement.base import units

PAUSED: Json = {**OWN, "paused": True}


async def secrets(world: World) -> list[Json]:
    return await world.kubernetes.list(SECRETS, SPACE)


async def test_no_authority_follows_another_while_it_is_paused() -> None:
    world = World(tls=OWN)
    await world.settle()
    before, first = await secrets(world), signs(world)
    await world.change(tls=PAUSED)
    rotate(world, "please")
    await rest(world)
    assert await secrets(world) == before
    assert (await world.conditions())["Secure"] == ("True", "IssuingPaused")
    assert "spec.tls.paused is true: none is issued" in await world.message("Secure")
    assert (await world.conditions())["Ready"] == READY

    await world.change(tls=OWN)
    await rest(world)
    assert signs(world) != first
    assert (await world.conditions())["Secure"] == ("True", "Operator")


async def test_a_rotation_that_is_paused_half_way_stays_where_it_is_and_is_finished_later() -> None:
    world = World(tls=OWN)
    await world.settle()
    before, first = await secrets(world), signs(world)
    rotate(world, "please")
    while await secrets(world) == before:
        await world.turn()
    await world.change(tls=PAUSED)
    half = await secrets(world)
    await rest(world)
    assert await secrets(world) == half
    assert (await world.conditions())["Secure"] == ("True", "IssuingPaused"), "it does not go on"

    await world.change(tls=OWN)
    await rest(world)
    assert signs(world) != first
    assert (await world.conditions())["Secure"] == ("True", "Operator")


async def test_a_zone_that_comes_while_it_is_paused_lacks_its_certificates_and_says_why() -> None:
    world = World(tls=OWN)
    await world.settle()
    labels = {"topology.kubernetes.io/zone": "d"}
    world.kubernetes.put(NODES, {"metadata": {"name": "node-d", "labels": labels}})
    await world.change(tls=PAUSED, zones=FOUR)
    await world.settle()
    assert (await world.conditions())["Secure"] == ("False", "NotIssued")
    assert "spec.tls.paused is true: none is issued" in await world.message("Secure")

    await world.change(tls=OWN)
    await rest(world)
    assert (await world.conditions())["Secure"] == ("True", "Operator")


async def test_what_ends_meanwhile_is_told_with_the_reason() -> None:
    world = World(tls=OWN)
    await world.settle()
    before = await secrets(world)
    await world.change(tls=PAUSED)
    world.now_ms += 365 * units.DAY_MS
    await world.settle()
    assert (await world.conditions())["Secure"][0] == "False"
    assert "spec.tls.paused is true" in await world.message("Secure")
    assert await secrets(world) == before


async def test_cert_manager_is_asked_for_nothing_while_it_is_paused() -> None:
    world = World(tls={**BY_ISSUER, "paused": True})
    await world.settle()
    assert await world.kubernetes.list(CERTIFICATES, SPACE) == []
    await world.change(tls=BY_ISSUER)
    await world.settle()
    assert await world.kubernetes.list(CERTIFICATES, SPACE) != []
