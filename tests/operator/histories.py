"""Random histories of a world: events come, and are taken back, between the operator's turns."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from tests.operator.worlds import World

AnyWorld = TypeVar("AnyWorld", bound=World)
#: What happens, and what takes it back; what takes itself back has no other.
Happening: TypeAlias = tuple[
    Callable[[AnyWorld], Awaitable[None]], Callable[[AnyWorld], Awaitable[None]] | None
]

#: The part of the turns after which the controllers of Kubernetes act, too.
_CONTROLLERS: Final = 0.7


async def play(
    world: AnyWorld,
    events: Sequence[Happening[AnyWorld]],
    *,
    chance: random.Random,
    turns: int,
    rate: float,
    look: Callable[[], Awaitable[None]],
) -> None:
    """Let so many turns pass, with an event before some; all that was begun is taken back then.

    ``rate``: the part of the turns that an event comes before. ``look`` is called after each turn.
    """
    begun: dict[int, Callable[[AnyWorld], Awaitable[None]]] = {}
    for _ in range(turns):
        if chance.random() < rate:
            number = chance.randrange(len(events))
            event, undo = events[number]
            if number in begun:
                await begun.pop(number)(world)
            else:
                await event(world)
                if undo is not None:
                    begun[number] = undo
        await world.turn()
        await look()
        if chance.random() < _CONTROLLERS:
            await world.controllers()
    for undo in begun.values():
        await undo(world)
