"""The commands that the page shows, to be copied: the console itself changes nothing. Pure.

A command is a list of words. A word in braces stands for a name that the page fills in; the page
quotes each word for a POSIX shell. Each command names the cluster by its address and its instance,
so that it means this cluster in whatever terminal it is pasted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ZONE: Final = "{zone}"
DOMAIN: Final = "{upgradeDomain}"
BOOKIE: Final = "{bookie}"
LEDGER: Final = "{ledger}"
RUNBOOK: Final = "{runbook}"
REASON: Final = "{reason}"
#: The words that name the cluster, and those that name TLS files: none or several words.
PLACE: Final = "{place}"
TLS: Final = "{tls}"

_WHY: Final = ("--reason", REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCommand:
    """One command and what it is for."""

    label: str
    words: tuple[str, ...]
    #: Does it change something, when a person runs it?
    changes: bool = False


def _looks(label: str, text: str, *words: str) -> CopiedCommand:
    return CopiedCommand(label=label, words=("zonekeeper", *text.split(), *words))


def _acts(label: str, text: str, *words: str) -> CopiedCommand:
    found = ("zonekeeper", *text.split(), *words, *_WHY)
    return CopiedCommand(label=label, words=found, changes=True)


#: By what they are about.
COMMANDS: Final[Mapping[str, tuple[CopiedCommand, ...]]] = {
    "zone": (
        _looks("state and evidence", "zones status", ZONE, PLACE),
        _looks("price of a release", "autorecovery release --zone", ZONE, "--dry-run", TLS, PLACE),
        _acts("release its losses", "autorecovery release --zone", ZONE, TLS, PLACE),
        _acts("hold its losses", "autorecovery hold --zone", ZONE, PLACE),
        _acts("planned work", "maintenance start --for 30m --zone", ZONE, PLACE),
        _looks("what if it is lost", "audit lose --zone", ZONE, PLACE),
    ),
    "cluster": (
        _looks("what is held, and by what", "plan", PLACE),
        _looks("price of a release", "autorecovery release --cluster --dry-run", TLS, PLACE),
        _acts("release the cluster", "autorecovery release --cluster", TLS, PLACE),
        _acts("hold the cluster", "autorecovery hold --cluster", PLACE),
    ),
    "switch": (_acts("switch repair on", "autorecovery enable", TLS, PLACE),),
    "unit": (
        _acts(
            "planned work",
            "maintenance start --for 30m --zone",
            *(ZONE, "--upgrade-domain", DOMAIN, PLACE),
        ),
        _acts(
            "end of planned work", "maintenance end --zone", ZONE, "--upgrade-domain", DOMAIN, PLACE
        ),
    ),
    "bookie": (
        _looks("all that is known", "bookies show", BOOKIE, TLS, PLACE),
        _acts("read-only", "bookies readonly", BOOKIE, TLS, PLACE),
        _acts("take writes again", "bookies readonly --off", BOOKIE, TLS, PLACE),
        _looks("what decommissioning does", "bookies decommission --dry-run", BOOKIE, TLS, PLACE),
        _acts("decommission", "bookies decommission", BOOKIE, TLS, PLACE),
        _acts("empty it, and keep it", "bookies drain", BOOKIE, TLS, PLACE),
        _acts("take its order back", "bookies take-back", BOOKIE, TLS, PLACE),
        _looks("what recovering does", "bookies recover --dry-run", BOOKIE, TLS, PLACE),
        _acts("recover what it held", "bookies recover", BOOKIE, TLS, PLACE),
    ),
    "ledger": (
        _looks("metadata", "ledger show", LEDGER, PLACE),
        _looks("check its copies", "audit replicas --ledger", LEDGER, TLS, PLACE),
    ),
    "queue": (_looks("leaders, queue, switch", "autorecovery status", PLACE),),
    "timeline": (_looks("all of it", "timeline -n 1000", PLACE),),
    "top": (_looks("each bookie's work", "top", PLACE),),
    "runbook": (_looks("what it means, and what to do", "runbook", RUNBOOK),),
}


def plain() -> dict[str, list[dict[str, object]]]:
    """Give all commands as plain data."""
    return {
        about: [
            {"label": one.label, "words": list(one.words), "changes": one.changes} for one in some
        ]
        for about, some in COMMANDS.items()
    }
