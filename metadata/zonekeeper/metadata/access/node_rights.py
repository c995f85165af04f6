"""The rights to nodes: which role may read, write, make and delete which kind of node. Pure.

Every node that zonekeeper makes is of one kind, which its path says. A kind has a row here, and
what the row does not grant is denied. The role ``admin`` is in no row: it may do everything, and it
alone may change ACLs. docs/security.md shows this table.

ZooKeeper grants the making and deleting of a node by the ACL of the node *above* it. So a directory
with children of two kinds grants for both what the rows grant for one of them. The rows are drawn
so that no right to something dangerous comes from a neighbour: clients make directories in the
root, and delete nothing there; below the root's own tree only directories of one kind have children
that come and go.

A path that no row knows is of no kind, and belongs to ``admin``: a new node needs a new row.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final


class StoreRole(enum.StrEnum):
    """The role of a process towards the metadata store, by the name that it has on a bookie too."""

    BOOKIE = "bookie"
    AUTORECOVERY = "autorecovery"
    OPERATOR = "operator"
    ADMIN = "admin"
    CLIENT = "client"
    MONITOR = "monitor"


class NodeUse(enum.StrEnum):
    """What is done to a node."""

    READ = "read"
    WRITE = "write"
    MAKE = "make"
    DELETE = "delete"


class NodePermission(enum.IntFlag):
    """The bits of an ACL, as ZooKeeper counts them."""

    NONE = 0
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


EVERYTHING: Final = NodePermission(31)

#: The kind whose nodes have owners.
LEDGER: Final = "ledger"

_LETTERS: Final = {
    "b": StoreRole.BOOKIE,
    "a": StoreRole.AUTORECOVERY,
    "o": StoreRole.OPERATOR,
    "c": StoreRole.CLIENT,
    "m": StoreRole.MONITOR,
}
_ALL: Final = "baocm"


def _roles(letters: str) -> frozenset[StoreRole]:
    return frozenset(_LETTERS[each] for each in letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One row: a kind of node, and the roles that may do something with it."""

    name: str
    #: For the page.
    meaning: str
    #: The paths below the root, from their beginning to their end.
    pattern: re.Pattern[str]
    #: The kinds of the nodes above.
    under: tuple[str, ...]
    grants: dict[NodeUse, frozenset[StoreRole]] = field(hash=False)
    #: A bookie that has an identity of its own writes such a node by that one.
    is_own: bool = False

    def roles_for(self, use: NodeUse) -> tuple[StoreRole, ...]:
        """Give the roles that may do this, in the order of ``StoreRole``."""
        return tuple(
            each for each in StoreRole if each is StoreRole.ADMIN or each in self.grants[use]
        )


def _kind(  # noqa: PLR0913 a row of the table
    name: str,
    meaning: str,
    pattern: str,
    under: tuple[str, ...],
    *,
    r: str = _ALL,
    w: str = "",
    c: str = "",
    d: str = "",
    is_own: bool = False,
) -> NodeKind:
    """Make a row of letters: who reads, writes, creates and deletes."""
    uses = zip(NodeUse, map(_roles, (r, w, c, d)), strict=True)
    return NodeKind(
        name=name,
        meaning=meaning,
        pattern=re.compile(pattern),
        under=under,
        grants=dict(uses),
        is_own=is_own,
    )


#: How the path of our own tree goes on behind the root's (``layout.OWN_SUFFIX``).
OWN_TREE: Final = ".zonekeeper"
_OWN: Final = re.escape(OWN_TREE)


def _collection(  # noqa: PLR0913 a row of the table
    directory: str,
    name: str,
    meaning: str,
    *,
    r: str = _ALL,
    w: str = "",
    c: str = "",
    d: str = "",
    is_own: bool = False,
) -> tuple[NodeKind, NodeKind]:
    """Make the rows of a directory of our own and of the nodes in it."""
    above = f"{directory}-directory"
    path = rf"{_OWN}/{directory}"
    return (
        _kind(above, f"the directory of: {meaning}", path, ("own-root",), c="o", d="o"),
        _kind(name, meaning, rf"{path}/[^/]+", (above,), r=r, w=w, c=c, d=d, is_own=is_own),
    )


def _tree(directory: str, name: str, meaning: str, *, w: str, c: str, d: str) -> Iterator[NodeKind]:
    """Make the rows of a directory of our own, and of the nodes and directories below it."""
    above = f"{directory}-directory"
    path = rf"{_OWN}/{directory}"
    yield _kind(above, f"the directory of: {meaning}", path, ("own-root",), c="o", d="o")
    yield _kind(name, meaning, rf"{path}/.+", (above, name), w=w, c=c, d=d)


_LEDGER_READERS: Final = "baoc"

#: The rows; the first that matches a path is its kind.
KINDS: Final[tuple[NodeKind, ...]] = (
    _kind("root", "the root of the cluster", "", (), c="o", d="o"),
    _kind(
        "fact",
        "what the root is: LAYOUT and INSTANCEID",
        r"(/underreplication)?/(LAYOUT|INSTANCEID)",
        ("root", "repair"),
        c="o",
        d="o",
    ),
    _kind("cookies", "the directory of cookies", "/cookies", ("root",), c="o", d="o"),
    _kind(
        "cookie",
        "a bookie's cookie",
        "/cookies/[^/]+",
        ("cookies",),
        w="b",
        c="b",
        d="ao",
        is_own=True,
    ),
    _kind(
        "registrations",
        "the directories of registrations",
        "/available(/readonly)?",
        ("root", "registrations"),
        c="o",
        d="o",
    ),
    _kind(
        "registration",
        "a bookie's registration",
        "/available/(readonly/)?[^/]+",
        ("registrations",),
        w="b",
        c="b",
        d="bo",
        is_own=True,
    ),
    _kind("counters", "the directory of counters", "/idgen-long", ("root",), c="b", d="o"),
    _kind(
        "counter",
        "a counter of ledger ids",
        "/idgen|/idgen-long/[^/]+",
        ("root", "counters"),
        c="bc",
        d="o",
    ),
    _kind(
        "id",
        "a number that is drawn",
        "/idgen/[^/]+|/idgen-long/[^/]+/[^/]+",
        ("counter",),
        c="c",
        d="co",
    ),
    _kind("ledger-area", "a first directory of ledgers", r"/\d{2,3}", ("root",), c="c", d="o"),
    _kind(
        "ledger-directory",
        "a further directory of ledgers",
        r"/\d\d/\d{4}|/\d{3}(/\d{4}){1,3}",
        ("ledger-area", "ledger-directory"),
        c="c",
        d="cao",
    ),
    _kind(
        LEDGER,
        "a ledger's metadata, with its password",
        r"/\d\d/\d{4}/L\d{4}|/\d{3}(/\d{4}){3}/L\d{4}",
        ("ledger-directory",),
        r=_LEDGER_READERS,
        w="ca",
        c="c",
        d="cao",
    ),
    _kind("repair", "the directory of repair", "/underreplication", ("root",), c="o", d="o"),
    _kind(
        "switch",
        "the switch of all repair",
        "/underreplication/disable",
        ("repair",),
        w="a",
        c="a",
        d="o",
    ),
    _kind(
        "marks", "the directory of marks", "/underreplication/ledgers", ("repair",), c="o", d="o"
    ),
    _kind(
        "mark",
        "a mark of a ledger that lacks replicas, and its directories",
        "/underreplication/ledgers/.+",
        ("marks", "mark"),
        w="ac",
        c="ac",
        d="ao",
    ),
    _kind("locks", "the directory of claims", "/underreplication/locks", ("repair",), c="o", d="o"),
    _kind(
        "lock",
        "a claim of a ledger by a repair",
        "/underreplication/locks/[^/]+",
        ("locks",),
        w="a",
        c="a",
        d="ao",
    ),
    _kind(
        "votes",
        "the directories of votes",
        rf"/underreplication/auditorelection|{_OWN}/(zone-watch|log-keeper)",
        ("repair", "own-root"),
        w="a",
        c="o",
        d="o",
    ),
    _kind(
        "vote",
        "a vote for auditor, zone watch or log keeper",
        rf"(/underreplication/auditorelection|{_OWN}/(zone-watch|log-keeper))/[^/]+",
        ("votes",),
        w="a",
        c="a",
        d="ao",
    ),
    _kind(
        "repair-note",
        "when checks ran, and the delay that Apache's tools show",
        "/underreplication/(lostBookieRecoveryDelay|(replicascheck|placementpolicycheck"
        "|checkallledgers)ctime)",
        ("repair",),
        w="a",
        c="a",
        d="o",
    ),
    _kind("own-root", "the tree of our own nodes", _OWN, (), w="o", c="o", d="o"),
    _kind(
        "identities",
        "which identity has which role",
        rf"{_OWN}/identities",
        ("own-root",),
        c="o",
        d="o",
    ),
    _kind("policy", "the policy", rf"{_OWN}/policy", ("own-root",), w="o", c="o", d="o"),
    _kind(
        "outage", "the record of all zones", rf"{_OWN}/cluster", ("own-root",), w="a", c="a", d="o"
    ),
    _kind(
        "set-back",
        "the mark of a restored root",
        rf"{_OWN}/restored",
        ("own-root",),
        w="b",
        c="b",
        d="o",
    ),
    _kind("accepted", "what a person accepted of that", rf"{_OWN}/accepted", ("own-root",), d="o"),
    *_collection("bookies", "bookie-record", "what is known of a bookie", w="ba", c="ba", d="ao"),
    *_collection("maintenance", "maintenance", "planned work", w="ao", c="ao", d="ao"),
    *_collection("timeline", "event", "what happened", c="bao", d="bao"),
    *_collection("zones", "gate", "a zone's state and gate", w="a", c="a", d="ao"),
    *_collection("orders", "order", "what is to become of a bookie", w="a", c="a", d="ao"),
    *_collection("order-claims", "order-claim", "who works on an order", w="a", c="a", d="ao"),
    *_collection(
        "collecting", "question", "what a bookie may not collect unasked", w="b", c="b", d="bao"
    ),
    *_collection(
        "looks", "look", "a bookie's write before it reads", w="b", c="b", d="ao", is_own=True
    ),
    *_collection("writers", "presence", "that a writer is there", w="c", c="c", d="co"),
    *_collection("deletions", "deletion", "which ledgers were deleted", w="ca", c="ca", d="cao"),
    *_collection("vouchers", "voucher", "a repair's word", c="a", d="ao"),
    *_collection("processes", "process", "where a process is found", w="a", c="a", d="ao"),
    *_collection("checks", "check", "how far a check has come", w="a", c="a", d="ao"),
    *_tree("deleted-logs", "deleted-log", "which logs were deleted", w="ca", c="ca", d="cao"),
    *_tree("logs", "log", "logs and their cursors", w="ca", c="c", d="cao"),
    *_tree("standby", "candidate", "who stands by to write a log", w="ca", c="ca", d="cao"),
)

#: The directories that roles may not make themselves: a guarded root has each.
DIRECTORIES: Final = (
    *(
        kind.name.removesuffix("-directory")
        for kind in KINDS
        if kind.name.endswith("-directory") and kind.under == ("own-root",)
    ),
    # Of votes. The one of zone watches is as old as the root, and that of auditors is Apache's.
    "log-keeper",
)


@cache
def _children(name: str) -> tuple[NodeKind, ...]:
    return tuple(kind for kind in KINDS if name in kind.under)


def kind_of(suffix: str) -> NodeKind | None:
    """Give the kind of a node, by its path behind the root's; None: no kind of ours."""
    return next((kind for kind in KINDS if kind.pattern.fullmatch(suffix)), None)


def permissions(kind: NodeKind | None, role: StoreRole) -> NodePermission:
    """Give what the ACL of such a node grants a role."""
    if role is StoreRole.ADMIN:
        return EVERYTHING
    if kind is None:
        return NodePermission.NONE
    granted = NodePermission.NONE
    if role in kind.grants[NodeUse.READ]:
        granted |= NodePermission.READ
    if role in kind.grants[NodeUse.WRITE]:
        granted |= NodePermission.WRITE
    for child in _children(kind.name):
        if role in child.grants[NodeUse.MAKE]:
            granted |= NodePermission.CREATE
        if role in child.grants[NodeUse.DELETE]:
            granted |= NodePermission.DELETE
    return granted
