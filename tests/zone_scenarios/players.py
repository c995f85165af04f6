"""Plays a transcript on one of the two sides."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.zone_scenarios import machine_player, watch_player
from tests.zone_scenarios.transcripts import Side, Transcript

_PLAYERS: Final[Mapping[Side, Callable[[Transcript], None]]] = {
    Side.MACHINE: machine_player.play,
    Side.WATCH: watch_player.play,
}


def play(transcript: Transcript, side: Side) -> None:
    """Play it to its end; raises ``AssertionError`` at the first line that does not hold."""
    _PLAYERS[side](transcript)
