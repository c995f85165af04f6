"""A caller: the code behind a connection, as its certificate names it, and what is decided for it.

``verdict`` decides from the caller, the operation and the enforcement. A certificate that names no
principal is known by its authority alone. Under ``NAMED`` it may still do everything, and each
operation is counted that ``ON`` would refuse: a cluster with TLS keeps working when a release that
knows roles comes, and its owner sees what lacks a role before it is enforced. But a certificate
with a URI of our scheme was made when there were roles. If it names nobody here, say as the monitor
of another cluster, ``NAMED`` holds it to that: it may do nothing. Pure.

``owner_verdict`` decides about one ledger, after that: a ledger may belong to a principal.
"""

import enum
from dataclasses import dataclass
from typing import Final, assert_never

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.identity import principals, rights
from zonekeeper.wire.identity.name_map import NameMap
from zonekeeper.wire.identity.principals import NamesNobody, PeerNames, Principal, Role
from zonekeeper.wire.identity.rights import Grant, Operation


class Enforcement(enum.Enum):
    """Which refusals are carried out; ``bookie.life.settings`` says which is the default."""

    #: Nothing is asked.
    OFF = "off"
    #: Everything is done; each refusal that would be is counted and logged.
    WARN = "warn"
    #: A caller with a principal is refused, and one of another cluster; others are warned of.
    NAMED = "named"
    #: Every caller is refused what no role of it may do.
    ON = "on"


class OwnerRule(enum.Enum):
    """What becomes of a request for a ledger that belongs to another principal."""

    #: Nobody asks whose a ledger is.
    OFF = "off"
    #: It is done, and counted and told to the audit.
    WARN = "warn"
    ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The code at the other end of a connection."""

    #: Empty: its certificate names no principal here, or it showed none.
    principals: tuple[Principal, ...] = ()
    #: Why there is none, or None.
    why_nobody: str | None = None
    #: Its certificate has a URI of our scheme, whatever that names.
    knows_roles: bool = False

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that count."""
        return tuple(principal.role for principal in self.principals)

    def __str__(self) -> str:
        return "+".join(map(str, self.principals)) or "nobody"


#: A caller without a certificate: there is no TLS, or a port that lets a caller do without.
UNKNOWN: Final = Caller(why_nobody="it showed no certificate")


class Verdict(enum.Enum):
    """What is done about an operation of a caller."""

    ALLOWED = "allowed"
    #: It is done, and counted: a stricter enforcement would refuse it.
    WARNED = "warned"
    REFUSED = "refused"


def caller_of(names: PeerNames, instance: str, name_map: NameMap) -> Caller:
    """Give the caller whose certificate has these names, in the cluster of this instance."""
    found: dict[Principal, None] = {}
    reasons: list[str] = []
    for uri in filter(principals.is_ours, principals.bounded(names.uris)):
        match principals.parse(uri, instance):
            case Principal() as principal:
                found[principal] = None
            case NamesNobody(why=why):
                reasons.append(why)
    found |= dict.fromkeys(name_map.principals_of(names))
    if found:
        return Caller(principals=tuple(found))
    why = reasons[0] if reasons else f"its certificate ({names}) names no role"
    return Caller(why_nobody=why, knows_roles=bool(reasons))


def verdict(caller: Caller, operation: Operation, enforcement: Enforcement) -> Verdict:
    """Decide about an operation."""
    if enforcement is Enforcement.OFF or rights.best(caller.roles, operation) is not Grant.NO:
        return Verdict.ALLOWED
    match enforcement:
        case Enforcement.WARN:
            return Verdict.WARNED
        case Enforcement.NAMED:
            is_held = caller.principals or caller.knows_roles
            return Verdict.REFUSED if is_held else Verdict.WARNED
        case Enforcement.ON:
            return Verdict.REFUSED
        case _:
            assert_never(enforcement)


def owner_verdict(caller: Caller, operation: Operation, owner: str, rule: OwnerRule) -> Verdict:
    """Decide about an operation on a ledger that has this owner; "": it has none.

    The operation itself was decided before. A caller that is nobody owns nothing.
    """
    if rule is OwnerRule.OFF or not owner or operation not in rights.OWNED:
        return Verdict.ALLOWED
    if any(rights.of_others(role, operation) for role in caller.roles):
        return Verdict.ALLOWED
    if owner in map(str, caller.principals):
        return Verdict.ALLOWED
    return Verdict.REFUSED if rule is OwnerRule.ON else Verdict.WARNED


def own_bits(caller: Caller, rule: OwnerRule) -> int:
    """Give the operations for which a ledger's owner matters, as a sum of their bits."""
    if rule is OwnerRule.OFF:
        return 0
    held = {
        each: any(rights.of_others(role, each) for role in caller.roles) for each in rights.OWNED
    }
    # A role that works on ledgers of others is kept from all else by its rights alone: repair
    # would ask whose each ledger is before it may not append there.
    works_for_others = any(held.values())
    return sum(
        each.bit
        for each, is_free in held.items()
        if not is_free
        and not (works_for_others and rights.best(caller.roles, each) is rights.Grant.NO)
    )


def of_another(caller: Caller, operation: Operation, ledger_id: LedgerId, owner: str) -> str:
    """Say whose the ledger is, and which roles may do this with ledgers of others."""
    may = " or ".join(role.value for role in Role if rights.of_others(role, operation))
    needs = f"the principal {owner}" + (f", or the role {may}" if may else "")
    return (
        f"{_asker(caller)} asks for {operation.value} of ledger {ledger_id}, which is of "
        f"{owner}: that needs {needs}"
    )


def free_bits(caller: Caller, enforcement: Enforcement) -> int:
    """Give the operations that need no further look, as a sum of their bits."""
    return sum(
        operation.bit
        for operation in Operation
        if verdict(caller, operation, enforcement) is Verdict.ALLOWED
    )


def lack(caller: Caller, operation: Operation) -> str:
    """Say which role is missing, and who asks for what."""
    allowed = " or ".join(role.value for role in rights.roles_for(operation))
    return f"{_asker(caller)} asks for {operation.value}, which needs the role {allowed}"


def _asker(caller: Caller) -> str:
    return str(caller) if caller.principals else f"a caller without a role ({caller.why_nobody})"


def refusal(caller: Caller, operation: Operation) -> errors.NotPermitted:
    """Give the error for an operation that the caller may not do."""
    return errors.NotPermitted(
        f"{lack(caller, operation)}; nothing was done; show a certificate of that role"
    )
