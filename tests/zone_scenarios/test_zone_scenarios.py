"""Every zone scenario, on the pure machine and on a zone watch that runs."""

import pytest

from tests.zone_scenarios import players, transcripts
from tests.zone_scenarios.transcripts import Side, Transcript


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("transcript", transcripts.all_of(), ids=str)
def test_it_goes_as_it_is_told(transcript: Transcript, side: Side) -> None:
    players.play(transcript, side)
