"""A model of processes that trust each other by files which reach them late, without cryptography.

An operator decides steps; they change Secrets; each process reads its Secret some time later. What
must hold: any two processes trust each other's certificates, whatever each of them has read.
"""

import itertools
import random
from dataclasses import dataclass, replace
from typing import Final, assert_never

from zonekeeper.operator.certificates import renewing
from zonekeeper.operator.certificates.renewing import (
    BundleAuthorities,
    CertificateStep,
    IssueCertificate,
    IssuingTime,
    MakeAuthority,
    PromoteAuthority,
    TrustAuthorities,
)
from zonekeeper.operator.certificates.sights import (
    AuthoritySight,
    CertificateSight,
    LeafSight,
    SecretState,
)
from zonekeeper.operator.certificates.subjects import Subject
from zonekeeper.operator.cluster.security_rules import TlsRules
from zonekeeper.operator.shapes.tls import TlsMode
from zonekeeper.placement.base import units
from zonekeeper.wire.signing.values import SeenCertificate

AUTHORITY: Final = "log-ca-tls"
SETTLE_MS: Final = 10 * units.MINUTE_MS
#: A process has read a change before this time is over.
LAG_MS: Final = SETTLE_MS - units.MINUTE_MS
RULES: Final = TlsRules(
    mode=TlsMode.OPERATOR,
    lifetime_ms=90 * units.DAY_MS,
    authority_lifetime_ms=1_825 * units.DAY_MS,
    settle_ms=SETTLE_MS,
)
MADE_MS: Final = 1_767_323_045_000


def subject(name: str) -> Subject:
    return Subject(
        secret=f"log-{name}-tls", common_name=name, uri=f"zonekeeper://i/bookie/{name}", dns=(name,)
    )


@dataclass(slots=True)
class Read:
    """What one process has read of its Secret, and what was written since."""

    versions: list[tuple[int, LeafSight]]
    read: int = 0


class Trusting:
    """Secrets, processes that read them, and an operator."""

    def __init__(self, *names: str, seed: int = 0) -> None:
        self.subjects = tuple(map(subject, names))
        self.authority: AuthoritySight | None = None
        self.leaves: dict[str, LeafSight] = {}
        self.processes: dict[str, Read] = {}
        self.now_ms = 0
        #: What the operator's wall clock is wrong by.
        self.skew_ms = 0
        self.word = ""
        self.rules = RULES
        self.steps: list[CertificateStep] = []
        self._seen: CertificateSight | None = None
        self._numbers = itertools.count(1)
        self._chance = random.Random(seed)

    @property
    def moment(self) -> IssuingTime:
        wall_ms = MADE_MS + self.now_ms + self.skew_ms
        return IssuingTime(wall_ms=wall_ms, made_ms=MADE_MS, word=self.word)

    def restart(self) -> None:
        """Let another operator take over, which has seen nothing."""
        self._seen = None

    def turn(self, after_ms: int = units.MINUTE_MS, *, dies_after: int = 1_000) -> int:
        """Let time pass, and the operator do one turn; give the number of its steps."""
        self.now_ms += after_ms
        self._read()
        self.check()
        found = CertificateSight(authority=self.authority, leaves=dict(self.leaves))
        seen = renewing.followed(self._seen, found, now_ms=self.now_ms)
        steps = renewing.decide(AUTHORITY, self.subjects, seen, self.rules, self.moment)
        self._seen = seen
        for step in steps[:dies_after]:
            self._perform(step)
        if dies_after < len(steps):
            self.restart()
        self._read()
        self.check()
        return len(steps)

    def rest(self, turns: int = 200) -> None:
        """Let turns come until nothing is left to be done."""
        idle_ms = 0
        for _ in range(turns):
            idle_ms = 0 if self.turn() else idle_ms + units.MINUTE_MS
            if idle_ms > 2 * SETTLE_MS:
                return
        raise AssertionError("it does not come to rest")

    def check(self) -> None:
        """Every two processes trust each other."""
        loaded = {
            name: one.versions[one.read][1] for name, one in self.processes.items() if one.versions
        }
        for (name, one), (other, two) in itertools.product(loaded.items(), repeat=2):
            trusted = {each.print for each in two.trusted}
            assert one.issuer in trusted, f"{other} does not trust {name} at {self.now_ms}"

    def issuers(self) -> set[str | None]:
        return {leaf.issuer for leaf in self.leaves.values()}

    def trusted(self) -> set[frozenset[str]]:
        return {frozenset(one.print for one in leaf.trusted) for leaf in self.leaves.values()}

    def _read(self) -> None:
        """Let each process read some version, at the latest when its time is over."""
        for one in self.processes.values():
            due = [
                number
                for number, (at_ms, _) in enumerate(one.versions)
                if at_ms <= self.now_ms - LAG_MS
            ]
            least = max([one.read, *due])
            one.read = self._chance.randint(least, len(one.versions) - 1)

    def _perform(self, step: CertificateStep) -> None:
        self.steps.append(step)
        match step:
            case MakeAuthority():
                made = self._certificate(f"ca{next(self._numbers)}", step.validity.not_after_ms)
                known = self.authority
                assert (None if known is None else known.state) == step.seen
                before = AuthoritySight(state=self._state()) if known is None else known
                self.authority = replace(
                    before,
                    active=made if step.signs else before.active,
                    coming=None if step.signs else made,
                    settled=made.print if step.signs else before.settled,
                    trusted=(*step.trusted, made),
                    word=step.word,
                    state=self._state(),
                )
            case TrustAuthorities():
                known = self._same(step.seen)
                self.authority = replace(
                    known,
                    trusted=step.trusted,
                    settled=known.settled if step.settled else "",
                    state=self._state(),
                )
            case PromoteAuthority():
                known = self._same(step.seen)
                active = known.active if known.coming is None else known.coming
                assert active is not None
                self.authority = replace(
                    known, active=active, coming=None, settled=active.print, state=self._state()
                )
            case BundleAuthorities():
                leaf = self.leaves[step.name]
                assert leaf.state == step.seen
                self.put(step.name, replace(leaf, trusted=step.trusted, state=self._state()))
            case IssueCertificate():
                active = self._same(step.authority).active
                assert active is not None
                standing = self.leaves.get(step.name)
                assert (None if standing is None else standing.state) == step.seen
                number = next(self._numbers)
                leaf = LeafSight(
                    state=self._state(),
                    certificate=self._certificate(f"leaf{number}", step.validity.not_after_ms),
                    issuer=active.print,
                    uris=frozenset({step.subject.uri}),
                    dns=frozenset(step.subject.dns),
                    trusted=step.trusted,
                )
                self.put(step.name, leaf)
            case _:
                assert_never(step)

    def put(self, name: str, leaf: LeafSight) -> None:
        """Write a Secret: its process reads it later."""
        self.leaves[name] = leaf
        if leaf.certificate is not None:
            self.processes.setdefault(name, Read([])).versions.append((self.now_ms, leaf))

    def _same(self, seen: SecretState) -> AuthoritySight:
        assert self.authority is not None
        assert self.authority.state == seen
        return self.authority

    def _state(self) -> SecretState:
        number = str(next(self._numbers))
        return SecretState(uid=number, version=number, controller="uid-log")

    def _certificate(self, name: str, not_after_ms: int) -> SeenCertificate:
        return SeenCertificate(pem=f"{name}\n", print=name, not_after_ms=not_after_ms)
