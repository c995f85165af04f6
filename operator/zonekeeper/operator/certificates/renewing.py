"""Which certificate is issued when, and which authority is trusted when. Pure.

``decide`` takes what was seen of the Secrets, and a time, and gives the steps of now. It remembers
nothing, so it goes on wherever an operator ended, and from whatever a person has done to a Secret.

An authority goes through three states, and another follows it without a failed handshake::

    coming: every process trusts it    active: it signs       trusted: what it signed may be in use
    ───────────────────────────────►  ─────────────────────►  ──────────────────────────────► gone

- No authority signs before all processes trust it: its certificate stands in every Secret, and
  nothing has changed for ``settle``.
- No authority is dropped while a certificate that it signed stands in a Secret, nor before nothing
  has changed for ``settle``.
- Another one is made when only one is left. So asking again and again piles none up.

``settle`` is counted on a clock that never goes back, from what this process itself has seen. So a
wall clock that jumps cannot cut it short, and another operator counts anew.

Wall time decides only how long certificates last. Each one begins to be valid before the resource
was made, so a clock that is ahead issues nothing that others take for not yet valid. A clock that
is behind counts as standing where the last certificate was issued, so what it issues is not over.

A lost authority is replaced by another one, which goes through the same states: what the lost one
signed stays trusted, because its certificate stands in the other Secrets. Only where the Secrets of
several processes are lost together with the authority, these may refuse each other until each has
read its new one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from zonekeeper.operator.certificates.sights import (
    AuthoritySight,
    CertificateSight,
    LeafSight,
    SecretState,
)
from zonekeeper.operator.certificates.subjects import Subject
from zonekeeper.operator.cluster.security_rules import TlsRules
from zonekeeper.placement.base import units
from zonekeeper.wire.signing.values import SeenCertificate, Validity

#: Every certificate is valid from so long before its resource was made: clocks differ.
BEFORE_MS: Final = units.DAY_MS
#: A certificate is renewed when this part of its life is left.
LEFT: Final = 3
#: A renewal must make a certificate last longer by this part of its life, or it gains nothing.
GAIN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeAuthority:
    """Make a new authority; it signs at once only if there is nothing that has to trust it."""

    name: str
    #: The Secret as it was seen; None: there is none.
    seen: SecretState | None
    signs: bool
    #: What is trusted beside it.
    trusted: tuple[SeenCertificate, ...]
    validity: Validity
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustAuthorities:
    """Write which authorities are trusted."""

    name: str
    seen: SecretState
    trusted: tuple[SeenCertificate, ...]
    #: Does every process trust the active one, as far as was known before?
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteAuthority:
    """Let the coming authority sign; without one: note that the active one is trusted by all."""

    name: str
    seen: SecretState


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleAuthorities:
    """Write the trusted authorities into the Secret of a certificate that stays."""

    name: str
    seen: SecretState
    trusted: tuple[SeenCertificate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueCertificate:
    """Issue a certificate, and write it with the trusted authorities."""

    name: str
    #: The Secret as it was seen; None: there is none.
    seen: SecretState | None
    subject: Subject
    #: The authority that signs, as it was seen.
    authority: SecretState
    authority_name: str
    trusted: tuple[SeenCertificate, ...]
    validity: Validity


CertificateStep: TypeAlias = (
    MakeAuthority | TrustAuthorities | PromoteAuthority | BundleAuthorities | IssueCertificate
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuingTime:
    """The times that are decided by."""

    #: Wall time as this process has it.
    wall_ms: int
    #: When the resource was made, by the clock of the API server; 0: it is not known.
    made_ms: int
    #: The word by which a person asks for another authority; empty: none does.
    word: str = ""

    @property
    def from_ms(self) -> int:
        """From when certificates are valid."""
        return min(self.wall_ms, self.made_ms or self.wall_ms) - BEFORE_MS


def decide(
    name: str,
    subjects: tuple[Subject, ...],
    seen: CertificateSight,
    rules: TlsRules,
    moment: IssuingTime,
) -> tuple[CertificateStep, ...]:
    """Give the steps of now; ``name`` is the Secret of the authority."""
    now_ms = _now(seen, rules, moment)
    leaves = {one.secret: seen.leaves[one.secret] for one in subjects if one.secret in seen.leaves}
    found = seen.authority
    if found is None or (found.active is None and found.coming is None):
        return (_first(name, found, leaves.values(), rules, moment, now_ms),)
    if not is_under_way(seen) and _is_over(found, rules, moment, now_ms):
        return (_following(name, found, rules, moment, now_ms),)
    is_settled = _is_settled(found, leaves.values())
    issued = tuple(_issued(name, subjects, seen, rules, moment)) if is_settled else ()
    is_quiet = seen.quiet_ms >= rules.settle_ms or not leaves
    is_whole = len(leaves) == len(subjects) and all(
        leaf.certificate is not None for leaf in leaves.values()
    )
    return (
        _extended(name, found, leaves.values(), is_settled=is_settled, is_whole=is_whole)
        or _bundled(found, leaves)
        or issued
        or (_gone_on(name, found, leaves.values(), is_settled=is_settled) if is_quiet else ())
    )


def _extended(
    name: str,
    found: AuthoritySight,
    leaves: Collection[LeafSight],
    *,
    is_settled: bool,
    is_whole: bool,
) -> tuple[CertificateStep, ...]:
    """Trust what must be trusted and is not; note what is not trusted by all any more.

    The Secret of the authority may be an older one then. So all that is trusted anywhere stays so.
    While a certificate is missing (not ``is_whole``), its process may still show one that any of
    these has signed.
    """
    standing = {one.print for one in found.trusted}
    known = {one.print: one for leaf in leaves for one in leaf.trusted}
    needed = {one.print for one in _needed(found, leaves)}
    if not is_whole:
        needed |= known.keys()
    if needed <= standing and (is_settled or not found.settled):
        return ()
    known |= {one.print: one for one in (*found.trusted, *_needed(found, leaves))}
    return (_trust(name, found, known.values(), settled=is_settled),)


def _bundled(found: AuthoritySight, leaves: Mapping[str, LeafSight]) -> tuple[CertificateStep, ...]:
    """Bring the trusted authorities to each process."""
    return tuple(
        BundleAuthorities(name=secret, seen=leaf.state, trusted=found.trusted)
        for secret, leaf in leaves.items()
        if leaf.certificate is not None and not _same(leaf.trusted, found.trusted)
    )


def _gone_on(
    name: str, found: AuthoritySight, leaves: Iterable[LeafSight], *, is_settled: bool
) -> tuple[CertificateStep, ...]:
    """Let the next authority sign, or the last one go: every process has read what stands."""
    if found.coming is not None or not is_settled:
        return (PromoteAuthority(name=name, seen=found.state),)
    needed = _needed(found, leaves)
    if len(needed) < len(found.trusted):
        return (_trust(name, found, needed, settled=True),)
    return ()


def is_under_way(seen: CertificateSight) -> bool:
    """Is an authority on its way in or out?"""
    found = seen.authority
    return found is not None and (found.coming is not None or len(found.trusted) > 1)


def _now(seen: CertificateSight, rules: TlsRules, moment: IssuingTime) -> int:
    """Give wall time, but never a time before the last certificate was issued."""
    issued = (
        leaf.certificate.not_after_ms - rules.lifetime_ms
        for leaf in seen.leaves.values()
        if leaf.certificate is not None
    )
    return max(moment.wall_ms, moment.made_ms, *issued)


def _first(
    name: str,
    found: AuthoritySight | None,
    leaves: Iterable[LeafSight],
    rules: TlsRules,
    moment: IssuingTime,
    now_ms: int,
) -> MakeAuthority:
    """Make the first authority, or one in place of an authority that was lost."""
    known = {one.print: one for leaf in leaves for one in leaf.trusted}
    return MakeAuthority(
        name=name,
        seen=None if found is None else found.state,
        signs=not known,
        trusted=tuple(known[each] for each in sorted(known)),
        validity=_authority_validity(rules, moment, now_ms),
        word=moment.word,
    )


def _is_over(found: AuthoritySight, rules: TlsRules, moment: IssuingTime, now_ms: int) -> bool:
    """Must another authority follow?"""
    assert found.active is not None, "one of the two is there"
    if moment.word != found.word:
        return True
    return now_ms >= found.active.not_after_ms - rules.authority_lifetime_ms // LEFT


def _following(
    name: str, found: AuthoritySight, rules: TlsRules, moment: IssuingTime, now_ms: int
) -> MakeAuthority:
    return MakeAuthority(
        name=name,
        seen=found.state,
        signs=False,
        trusted=found.trusted,
        validity=_authority_validity(rules, moment, now_ms),
        word=moment.word,
    )


def _authority_validity(rules: TlsRules, moment: IssuingTime, now_ms: int) -> Validity:
    return Validity(not_before_ms=moment.from_ms, not_after_ms=now_ms + rules.authority_lifetime_ms)


def _needed(found: AuthoritySight, leaves: Iterable[LeafSight]) -> tuple[SeenCertificate, ...]:
    """Give the authorities that must be trusted: those that sign, and those that have signed."""
    needed = {one.print: one for one in (found.active, found.coming) if one is not None}
    for leaf in leaves:
        for one in (*leaf.trusted, *found.trusted):
            if one.print == leaf.issuer:
                needed.setdefault(one.print, one)
    return tuple(needed[each] for each in sorted(needed))


def _is_settled(found: AuthoritySight, leaves: Iterable[LeafSight]) -> bool:
    """Is it known that every process trusts the active authority?

    An older Secret of the authority, from a backup, says so of one that was dropped since.
    """
    active = found.active
    return (
        active is not None
        and found.settled == active.print
        and all(
            active.print in {one.print for one in leaf.trusted}
            for leaf in leaves
            if leaf.certificate is not None
        )
    )


def _trust(
    name: str, found: AuthoritySight, trusted: Iterable[SeenCertificate], *, settled: bool
) -> TrustAuthorities:
    ordered = tuple(sorted(trusted, key=lambda one: one.print))
    return TrustAuthorities(name=name, seen=found.state, trusted=ordered, settled=settled)


def _issued(
    name: str,
    subjects: tuple[Subject, ...],
    seen: CertificateSight,
    rules: TlsRules,
    moment: IssuingTime,
) -> Iterable[IssueCertificate]:
    found, now_ms = seen.authority, _now(seen, rules, moment)
    assert found is not None, "it signs"
    assert found.active is not None, "it signs"
    not_after_ms = min(now_ms + rules.lifetime_ms, found.active.not_after_ms)
    for subject in _due(subjects, seen, found.active, rules, now_ms):
        leaf = seen.leaves.get(subject.secret)
        yield IssueCertificate(
            name=subject.secret,
            seen=None if leaf is None else leaf.state,
            subject=subject,
            authority=found.state,
            authority_name=name,
            trusted=found.trusted,
            validity=Validity(not_before_ms=moment.from_ms, not_after_ms=not_after_ms),
        )


def _due(
    subjects: tuple[Subject, ...],
    seen: CertificateSight,
    active: SeenCertificate,
    rules: TlsRules,
    now_ms: int,
) -> list[Subject]:
    """Give those whose certificate must be issued now.

    Those without one come first. Such a process may still use files of before its Secret was lost,
    and not trust the authority yet. So no other process shows a certificate of that authority for
    the first time before nothing has changed for ``settle``.
    """
    found = [(one, seen.leaves.get(one.secret)) for one in subjects]
    lost = [one for one, leaf in found if leaf is None or leaf.certificate is None]
    if lost:
        return lost
    is_quiet = seen.quiet_ms >= rules.settle_ms
    return [
        one
        for one, leaf in found
        if leaf is not None
        and (leaf.issuer == active.print or is_quiet)
        and _is_due(leaf, one, active, rules, now_ms)
    ]


def _is_due(
    leaf: LeafSight, subject: Subject, active: SeenCertificate, rules: TlsRules, now_ms: int
) -> bool:
    """Must this certificate be issued anew?"""
    certificate = leaf.certificate
    if certificate is None or leaf.issuer != active.print:
        return True
    if leaf.uris != {subject.uri} or not leaf.dns >= set(subject.dns):
        return True
    ends_ms = min(now_ms + rules.lifetime_ms, active.not_after_ms)
    return (
        now_ms >= certificate.not_after_ms - rules.lifetime_ms // LEFT
        and ends_ms >= certificate.not_after_ms + rules.lifetime_ms // GAIN
    )


def _same(one: Iterable[SeenCertificate], other: Iterable[SeenCertificate]) -> bool:
    return {each.print for each in one} == {each.print for each in other}


def followed(
    before: CertificateSight | None, seen: CertificateSight, *, now_ms: int
) -> CertificateSight:
    """Give what was seen, with the time for which nothing has changed since ``before``."""
    if before is None or before.basis != seen.basis:
        return replace(seen, since_ms=now_ms, quiet_ms=0)
    return replace(seen, since_ms=before.since_ms, quiet_ms=now_ms - before.since_ms)


def due_soon(
    seen: Mapping[str, LeafSight], *, now_ms: int, within_ms: int
) -> tuple[tuple[str, int], ...]:
    """Give the certificates that end within this time, with the time that is left."""
    left = (
        (name, leaf.certificate.not_after_ms - now_ms)
        for name, leaf in sorted(seen.items())
        if leaf.certificate is not None
    )
    return tuple((name, left_ms) for name, left_ms in left if left_ms <= within_ms)
