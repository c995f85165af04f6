"""Access: what each caller may ask, decided once for a connection and held before any effect.

``Access`` is the bookie's side: how strictly the rights are held, for which cluster, with which map
of foreign names. A transport asks it for the ``Guard`` of a connection's caller. The host asks the
guard about each message. A guard works out once which operations are free for its caller, as a
number with a bit for each. So the question about a message costs the same, whatever the rights are.
When the map of names changes, each guard works that out anew at its next message.

A ledger may belong to a principal. Whose it is the bookie says (``service.BookieService.owner``):
a guard gives a *judge* for each request for which that matters, and the judge decides.

Each refusal, carried out or only warned of, is counted. A change, a fence and a refusal have a line
in the audit (``running.audit_log``).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.errors import OwnerJudge
from zonekeeper.wire.formats.exposition import Family, labelled
from zonekeeper.wire.host.name_map_file import NameMapFile
from zonekeeper.wire.identity import callers, rights
from zonekeeper.wire.identity.callers import Caller, Enforcement, OwnerRule, Verdict
from zonekeeper.wire.identity.name_map import NameMap
from zonekeeper.wire.identity.principals import PeerNames
from zonekeeper.wire.identity.rights import Operation
from zonekeeper.wire.running.audit_log import AuditLine, AuditLog

#: How often the map of names is looked at for connections that stay.
LOOK_MS: Final = 10_000
#: The callers that are remembered, so that a call of a known one costs little.
CALLERS_MAX: Final = 1_024

_NO_NAMES: Final = NameMap()


@dataclass(slots=True)
class AccessFigures:
    """The refusals since the start: by operation, role and what was done about it."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: The same, of requests for ledgers of other owners.
    of_owners: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: What was refused because its principal had its share already (``shares``), by what it was.
    over_share: Counter[str] = field(default_factory=Counter)

    def families(self, enforcement: Enforcement, owners: OwnerRule) -> list[Family]:
        """Give the metrics."""
        return [
            labelled(
                "zonekeeper_bookie_access",
                "enforcement",
                {each.value: int(each is enforcement) for each in Enforcement},
                "1 for how strictly the rights of roles are held, 0 for the others.",
            ),
            labelled(
                "zonekeeper_bookie_owners",
                "rule",
                {each.value: int(each is owners) for each in OwnerRule},
                "1 for what becomes of requests for ledgers of others, 0 for the others.",
            ),
            _refusals(
                "zonekeeper_bookie_access_refusals_total",
                self.counts,
                "Operations that no role of the caller allows: refused, or only warned of.",
            ),
            _refusals(
                "zonekeeper_bookie_owner_refusals_total",
                self.of_owners,
                "Requests for ledgers of another owner: refused, or only warned of.",
            ),
            labelled(
                "zonekeeper_bookie_principal_refusals_total",
                "what",
                {each: self.over_share[each] for each in ("streams", "tails", "appends")},
                "What was refused because its principal had its share of the bookie already.",
            ),
        ]


def _refusals(name: str, counted: Counter[tuple[str, str, str]], said: str) -> Family:
    return Family(
        name,
        {
            (("operation", operation), ("role", role), ("outcome", outcome)): count
            for (operation, role, outcome), count in counted.items()
        },
        said,
    )


class Access:
    """How one bookie holds the rights."""

    def __init__(
        self,
        enforcement: Enforcement = Enforcement.OFF,
        *,
        instance: str = "",
        names: NameMapFile | None = None,
        audit: AuditLog | None = None,
        owners: OwnerRule = OwnerRule.OFF,
    ) -> None:
        self.owners: Final = OwnerRule.OFF if enforcement is Enforcement.OFF else owners
        self.enforcement: Final = enforcement
        self.instance: Final = instance
        self.audit: Final = audit
        self.figures = AccessFigures()
        self._names = names
        #: Differs whenever the same caller may be decided about otherwise.
        self.version = 0
        #: Callers, and the operations that are free for each, by the names of the certificate.
        self._known: dict[PeerNames | None, tuple[Caller, int]] = {}

    def guard(self, names: PeerNames | None, peer: str) -> "Guard":
        """Give the guard of a connection; ``names`` are those of its certificate, if there is TLS.

        ``peer`` is the address of the other side.
        """
        self.look()
        return Guard(self, names, peer)

    def known(self, names: PeerNames | None) -> tuple[Caller, int]:
        """Give the caller with these names, and the operations that need no look, as bits."""
        if (known := self._known.get(names)) is not None:
            return known
        name_map = _NO_NAMES if self._names is None else self._names.current
        caller = (
            callers.UNKNOWN if names is None else callers.caller_of(names, self.instance, name_map)
        )
        if len(self._known) >= CALLERS_MAX:
            self._known.clear()
        self._known[names] = found = caller, callers.free_bits(caller, self.enforcement)
        return found

    def look(self) -> None:
        """Look whether the map of names has changed."""
        if self._names is not None and self._names.renew():
            self._known.clear()
            self.version += 1

    async def follow(self) -> None:
        """Look at the map from time to time, for connections that stay."""
        while self._names is not None:
            await asyncio.sleep(LOOK_MS / 1_000)
            self.look()


class Guard:
    """What the caller of one connection may ask."""

    __slots__ = (
        "_access",
        "_caller",
        "_decided",
        "_free",
        "_names",
        "_own",
        "_peer",
        "_version",
        "_warned",
    )

    def __init__(self, access: Access, names: PeerNames | None, peer: str) -> None:
        self._access = access
        self._names = names
        self._peer = peer
        self._work_out()

    @property
    def caller(self) -> Caller:
        """The caller, as the map of names is now."""
        if self._version != self._access.version:
            self._work_out()
        return self._caller

    @property
    def asks_for_owners(self) -> bool:
        """Does it matter to anybody whose a ledger is?"""
        return self._access.owners is not OwnerRule.OFF

    @property
    def known_as(self) -> str | None:
        """The name under which the caller's share counts; None: there is no TLS.

        A certificate without a principal counts by the name that it has.
        """
        if self._names is None:
            return None
        if principals := self.caller.principals:
            return "+".join(sorted(map(str, principals)))
        return f"the certificate of {self._names}"

    def refusal(
        self, operation: Operation, ledger_id: LedgerId | None = None
    ) -> errors.NotPermitted | None:
        """Give the error for an operation that is not to be done; None: do it."""
        if self._version != self._access.version:
            self._work_out()
        if self._free & operation.bit:
            return None
        return self._not_granted(operation, ledger_id)

    def check(self, operation: Operation, ledger_id: LedgerId | None = None) -> None:
        """Raise NotPermitted for an operation that is not to be done."""
        if (refusal := self.refusal(operation, ledger_id)) is not None:
            raise refusal

    def judge(self, operation: Operation, ledger_id: LedgerId) -> OwnerJudge | None:
        """Give what decides about an operation once the owner is known; None: no owner matters."""
        if self._version != self._access.version:
            self._work_out()
        if not self._own & operation.bit:
            return None
        return partial(self.owner_refusal, operation, ledger_id)

    def owner_refusal(
        self, operation: Operation, ledger_id: LedgerId, found: str | errors.ProtocolError
    ) -> errors.ProtocolError | None:
        """Give the error for an operation on a ledger of this owner; None: do it.

        ``found`` may be the reason why the owner is not known: that refuses where owners are held,
        and is no reason where they are only warned of.
        """
        if self._version != self._access.version:
            self._work_out()
        rule = self._access.owners
        if not found or not self._own & operation.bit:
            return None
        if not isinstance(found, str):
            return found if rule is OwnerRule.ON else None
        verdict = callers.owner_verdict(self._caller, operation, found, rule)
        if verdict is Verdict.ALLOWED:
            return None
        self._access.figures.of_owners[operation.value, self._role(), verdict.value] += 1
        why = callers.of_another(self._caller, operation, ledger_id, found)
        if verdict is Verdict.REFUSED or not self._warned & operation.bit:
            self._tell(operation, verdict.value, ledger_id, why)
        if verdict is Verdict.REFUSED:
            return errors.NotPermitted(f"{why}; nothing was done")
        self._warned |= operation.bit  # a warning is told once a connection
        return None

    @contextmanager
    def asked(self, operation: Operation, ledger_id: LedgerId | None = None) -> Iterator[None]:
        """Check an operation, which the block then does; the audit hears how it ended."""
        self.check(operation, ledger_id)
        outcome = "cut off"
        try:
            yield
            outcome = "done"
        except errors.NotPermitted:
            outcome = ""  # the refusal was told
            raise
        except errors.ProtocolError as error:
            outcome = type(error).__name__
            raise
        finally:
            if outcome and operation in rights.AUDITED:
                self._tell(operation, outcome, ledger_id)

    def _work_out(self) -> None:
        access = self._access
        self._version = access.version
        self._caller, self._free = access.known(self._names)
        #: The operations for which a ledger's owner matters, as a sum of their bits.
        self._own = callers.own_bits(self._caller, access.owners)
        #: The operations on ledgers of others that were warned of.
        self._warned = 0
        #: What was decided about each operation that is not free, once it was asked for, and
        #: what it counts as. By the operation's bit.
        self._decided: dict[int, tuple[Verdict, tuple[str, str, str]]] = {}

    def _not_granted(
        self, operation: Operation, ledger_id: LedgerId | None
    ) -> errors.NotPermitted | None:
        caller = self._caller
        is_first = operation.bit not in self._decided
        if is_first:
            verdict = callers.verdict(caller, operation, self._access.enforcement)
            counted = operation.value, self._role(), verdict.value
            self._decided[operation.bit] = verdict, counted
        verdict, counted = self._decided[operation.bit]
        self._access.figures.counts[counted] += 1
        if verdict is Verdict.REFUSED:
            self._tell(operation, verdict.value, ledger_id, callers.lack(caller, operation))
            return callers.refusal(caller, operation)
        if is_first:  # a warning is told once a connection
            self._tell(operation, verdict.value, ledger_id, callers.lack(caller, operation))
        return None

    def _role(self) -> str:
        return "+".join(sorted({role.value for role in self._caller.roles})) or "none"

    def _tell(
        self, operation: Operation, outcome: str, ledger_id: LedgerId | None, why: str = ""
    ) -> None:
        if (audit := self._access.audit) is not None:
            audit.tell(
                AuditLine(
                    operation=operation.value,
                    outcome=outcome,
                    principal=str(self._caller),
                    peer=self._peer,
                    ledger=ledger_id,
                    reason=why,
                )
            )
