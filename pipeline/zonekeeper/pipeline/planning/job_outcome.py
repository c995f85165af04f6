"""What a job found, and what it would do, for the person who ran its command. Pure."""

from dataclasses import dataclass

from zonekeeper.placement.base.troubles import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The lines that the command prints, and whether they say that something was found."""

    lines: tuple[str, ...]
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAhead:
    """What the command prints before the job begins, and whether the job begins."""

    lines: tuple[str, ...]
    #: Why the job does not begin; None: it may.
    refusal: Refusal | None
    #: The command ends here.
    ends: bool
    #: Something was found, whatever the job itself finds.
    found: bool
