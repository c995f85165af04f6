"""What a job found, for the person who ran its command. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The lines that the command prints, and whether they say that something was found."""

    lines: tuple[str, ...]
    found: bool
