"""What a planted bug is: what it replaces, and where it must be found."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.simulation.patching import Patch, patched


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug, and where it must be found."""

    number: int
    what: str
    patches: Callable[[], Sequence[Patch]]
    #: The simulator's profile that finds it, and within how many seeds; None: other lanes do.
    profile: str | None = None
    within_seeds: int = 0
    #: Its name among those of the crash states, if it is one of them.
    in_crash_states: str | None = None

    def planted(self) -> AbstractContextManager[None]:
        """Let the code have the bug, while a block runs."""
        return patched(self.patches())
