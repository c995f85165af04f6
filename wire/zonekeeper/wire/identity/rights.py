"""The rights: which role may ask a process for what. What the table does not grant is denied. Pure.

An *operation* is what a message asks for: a call by its name, an item of a stream by its kind and
its flags. So a frame of a recovery is another operation than a frame of a writer, and a read that
fences is another one than a read. Each operation has a row, and each role has a cell in it.

Four answers are possible:

* ``NO``.
* ``OWN``: for a ledger whose key the caller shows, and which has no owner or is the caller's own.
* ``KEY``: for a ledger whose key the caller shows. Its owner does not matter. The host asks for the
  role alone. The bookie asks for the key, where the operation carries one.
* ``YES``: for every ledger.

Repair works on ledgers of others, so autorecovery has ``YES`` where a client has ``OWN``. The
bookie asks it for the key all the same: it reads each key in the metadata. A person with the role
``admin`` may look at somebody's ledger, fence and recover it, and writes nothing new into it. A
role is granted only what its code asks for: a new use needs a new cell here. docs/security.md shows
this table.
"""

import enum
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from zonekeeper.wire.identity.principals import Role


class Operation(enum.Enum):
    """Everything that can be asked of a bookie, by the name that metrics and audit show.

    ``LOOK`` is asked over HTTP, of a bookie and of an autorecovery process; all else of a bookie.
    """

    INFO = "info"
    OPEN = "open"
    APPEND = "append"
    RECOVERY_APPEND = "recovery-append"
    WRITE_LAC = "write-lac"
    FORCE = "force"
    READ = "read"
    FENCING_READ = "fencing-read"
    READ_LAC = "read-lac"
    TAIL = "tail"
    LIST_ENTRIES = "list-entries"
    FENCE = "fence"
    SET_READ_ONLY = "set-read-only"
    END_LIMBO = "end-limbo"
    COMPACT = "compact"
    LOOK = "look"

    #: A number of its own bit: a set of operations is a sum of these.
    bit: int

    def __init__(self, shown: str) -> None:
        del shown
        self.bit = 1 << len(type(self).__members__)


class Grant(enum.Enum):
    """May a role do an operation?"""

    NO = "no"
    OWN = "with the ledger's key, and as its owner if it has one"
    KEY = "with the ledger's key"
    YES = "yes"


#: What each operation is, for the page.
MEANINGS: Final = MappingProxyType(
    {
        Operation.INFO: "asks for the bookie's state, start, version and room",
        Operation.OPEN: "opens a fragment of a ledger, to write there",
        Operation.APPEND: "a writer's entries",
        Operation.RECOVERY_APPEND: "entries that a recovery or a repair writes, also into a fenced "
        "ledger",
        Operation.WRITE_LAC: "tells how far a ledger is confirmed",
        Operation.FORCE: "makes durable what was written with deferred sync",
        Operation.READ: "reads entries",
        Operation.FENCING_READ: "fences the ledger, then reads: a recovery",
        Operation.READ_LAC: "asks how far a ledger is confirmed",
        Operation.TAIL: "follows a ledger",
        Operation.LIST_ENTRIES: "lists the entries that the bookie has of a ledger",
        Operation.FENCE: "fences a ledger, so that its writer must stop",
        Operation.SET_READ_ONLY: "makes the bookie refuse appends, or take them again",
        Operation.END_LIMBO: "ends a ledger's limbo, so that the bookie may deny entries",
        Operation.COMPACT: "starts a compaction",
        Operation.LOOK: "sees the pages over HTTP, where they are by certificate",
    }
)

_REPAIR: Final = {Role.AUTORECOVERY: Grant.YES}
_LEDGER: Final = {Role.CLIENT: Grant.OWN, Role.ADMIN: Grant.KEY}
#: What only a ledger's writer does.
_WRITER: Final = {Role.CLIENT: Grant.OWN, Role.ADMIN: Grant.OWN}

#: The cells that grant something.
_GRANTED: Final[dict[Operation, dict[Role, Grant]]] = {
    Operation.INFO: {
        Role.AUTORECOVERY: Grant.YES,
        Role.OPERATOR: Grant.YES,
        Role.ADMIN: Grant.YES,
        Role.CLIENT: Grant.YES,
        Role.MONITOR: Grant.YES,
    },
    Operation.OPEN: _LEDGER | _REPAIR,
    Operation.APPEND: _WRITER,
    Operation.RECOVERY_APPEND: _LEDGER | _REPAIR,
    Operation.WRITE_LAC: _WRITER,
    Operation.FORCE: _WRITER,
    Operation.READ: _LEDGER | _REPAIR,
    Operation.FENCING_READ: _LEDGER | _REPAIR,
    Operation.READ_LAC: _LEDGER | _REPAIR,
    Operation.TAIL: _LEDGER,
    Operation.LIST_ENTRIES: {Role.ADMIN: Grant.KEY} | _REPAIR,
    Operation.FENCE: _LEDGER | _REPAIR,
    Operation.SET_READ_ONLY: {Role.AUTORECOVERY: Grant.YES, Role.ADMIN: Grant.YES},
    Operation.END_LIMBO: _REPAIR,
    Operation.COMPACT: {Role.ADMIN: Grant.YES},
    Operation.LOOK: {Role.ADMIN: Grant.YES, Role.MONITOR: Grant.YES},
}

#: The operations that change a bookie, or end a ledger's writer. The audit has a line for each.
AUDITED: Final = frozenset(
    {
        Operation.FENCE,
        Operation.FENCING_READ,
        Operation.SET_READ_ONLY,
        Operation.END_LIMBO,
        Operation.COMPACT,
    }
)


_FROM_THE_MOST: Final = (Grant.YES, Grant.KEY, Grant.OWN)


def grant(role: Role, operation: Operation) -> Grant:
    """May this role do this operation?"""
    return _GRANTED[operation].get(role, Grant.NO)


def best(roles: Iterable[Role], operation: Operation) -> Grant:
    """Give the most that one of these roles is granted; without a role ``NO``."""
    found = {grant(role, operation) for role in roles}
    return next((each for each in _FROM_THE_MOST if each in found), Grant.NO)


def of_others(role: Role, operation: Operation) -> bool:
    """May this role do this operation with a ledger that has another owner?"""
    return grant(role, operation) in (Grant.KEY, Grant.YES)


def roles_for(operation: Operation) -> tuple[Role, ...]:
    """Give the roles that may do an operation, in the order of ``Role``."""
    return tuple(role for role in Role if grant(role, operation) is not Grant.NO)


def granted_bits(roles: Iterable[Role]) -> int:
    """Give the operations that at least one of these roles may do, as a sum of their bits."""
    held = tuple(roles)
    return sum(each.bit for each in Operation if best(held, each) is not Grant.NO)


#: The operations that are about a ledger, and that its owner may do.
OWNED: Final = frozenset(
    each for each, cells in _GRANTED.items() if {Grant.OWN, Grant.KEY} & set(cells.values())
)

ALL_BITS: Final = sum(each.bit for each in Operation)
