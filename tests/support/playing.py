"""Tests that are played: the test is a coroutine, and a decorator says in which world it runs.

A player makes a world, runs a scenario in it and puts it away. ``by`` makes of a player the
decorator of tests, which takes what the player takes beside the scenario::

    played = playing.by(play)

    @pytest.mark.parametrize("comes_back", [True, False])
    @played(per_zone=10)
    async def test_a_zone_goes(world: GateWorld, comes_back: bool) -> None: ...

The first parameters of the test are the parts of the world, which the player gives; all others are
pytest's. What stands in the decorator is made once, when the module is imported. What is to be made
for each run, of what pytest gives, stands in ``from_pytest``.

pytest sees a function that is not a coroutine, so the loop is the player's. A test that needs a
loop and no world has ``virtual_time.played``.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")
#: What the player takes beside the scenario.
How = ParamSpec("How")
#: What pytest gives to the test.
Given = ParamSpec("Given")

Played = Coroutine[None, None, None]


class _FromPytest:
    """A value that is made for each run."""

    def __init__(self, make: Callable[..., object]) -> None:
        self._make = make
        self.parameters = inspect.signature(make).parameters

    def made(self, given: Mapping[str, object]) -> object:
        return self._make(**{name: given[name] for name in self.parameters})


def _made(value: object, given: Mapping[str, object]) -> object:
    return value.made(given) if isinstance(value, _FromPytest) else value


def from_pytest(make: Callable[..., T]) -> T:
    """Make an argument of the player anew for each run, of what pytest gives under these names.

    The test need not take them, too. It stands only in the decorator of a player.
    """
    return cast(T, _FromPytest(make))


@overload
def by(
    player: Callable[Concatenate[Callable[[A], Played], How], None],
    *,
    parts: Literal[1] = 1,
) -> Callable[How, Callable[[Callable[Concatenate[A, Given], Played]], Callable[Given, None]]]: ...


@overload
def by(
    player: Callable[Concatenate[Callable[[A, B], Played], How], None],
    *,
    parts: Literal[2],
) -> Callable[
    How, Callable[[Callable[Concatenate[A, B, Given], Played]], Callable[Given, None]]
]: ...


@overload
def by(
    player: Callable[Concatenate[Callable[[A, B, C], Played], How], None],
    *,
    parts: Literal[3],
) -> Callable[
    How, Callable[[Callable[Concatenate[A, B, C, Given], Played]], Callable[Given, None]]
]: ...


def by(player: Callable[..., None], *, parts: int = 1) -> Callable[..., Any]:
    """Make the decorator of tests whose world a player makes; it gives so many parts of it."""

    def played(*args: object, **how: object) -> Callable[..., Any]:
        def decorate(test: Callable[..., Played]) -> Callable[..., None]:
            return _played(test, player, parts, args, how)

        return decorate

    return played


def _played(
    test: Callable[..., Played],
    player: Callable[..., None],
    parts: int,
    args: Sequence[object],
    how: Mapping[str, object],
) -> Callable[..., None]:
    """Make the function that pytest calls."""
    assert inspect.iscoroutinefunction(test), f"{test.__qualname__} is no coroutine"
    own = list(inspect.signature(test).parameters.values())[parts:]
    wanted = {parameter.name: parameter for parameter in own}
    for value in (*args, *how.values()):
        if isinstance(value, _FromPytest):
            wanted = {**value.parameters, **wanted}
    signature = inspect.Signature(list(wanted.values()))

    @functools.wraps(test)
    def play(*positional: object, **named: object) -> None:
        __tracebackhide__ = True
        given = signature.bind(*positional, **named).arguments
        kept = {parameter.name: given[parameter.name] for parameter in own}
        player(
            functools.partial(test, **kept),
            *(_made(value, given) for value in args),
            **{name: _made(value, given) for name, value in how.items()},
        )

    # pytest must not look for a fixture for what the player gives.
    play.__signature__ = signature  # type: ignore[attr-defined]  # pytest reads it
    return play
