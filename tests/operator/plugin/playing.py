"""The plugin at the operator's world: the desk where orders are given, and its patience."""

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.people.answers import OrderAnswer
from zonekeeper.operator.plugin import orders_made
from zonekeeper.operator.plugin.ordering import OrderDesk
from zonekeeper.operator.plugin.orders_made import AskedByPerson
from zonekeeper.placement.zones.gate import Person

ANNA = Person(name="anna", reason="the site is moved")
FOR_MS = 120_000


def desk(world: World, *, operates: bool = True) -> OrderDesk:
    """Give the desk; while it waits the operator works, if one does."""

    async def pause() -> None:
        if operates:
            await world.turn()
        else:
            world.now_ms += 10_000

    return OrderDesk(
        api=world.kubernetes,
        namespace=SPACE,
        name=NAME,
        wall_ms=lambda: world.wall_ms,
        pause=pause,
    )


async def give(
    at: OrderDesk, asked: AskedByPerson, token: str = "t", person: Person = ANNA
) -> OrderAnswer:
    """Give an order, and follow it."""
    until_ms = at.wall_ms() + FOR_MS
    return await at.give(
        lambda found: orders_made.made(found, asked, person, token=token, until_ms=until_ms)
    )
