"""Reads ``spec.tls`` and ``spec.network``: how a cluster is secured. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import standing_defaults
from zonekeeper.operator.cluster.standing_defaults import StandingDefaults
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import network, shapes, tls
from zonekeeper.operator.shapes.network import PagesMode
from zonekeeper.operator.shapes.tls import IssuerKind, TlsMode
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem
from zonekeeper.wire.running.bookie_config import ACCESS, NOT_HELD, OWNERS


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    """An issuer of cert-manager."""

    name: str
    kind: IssuerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSecrets:
    """The names of Secrets that a person keeps."""

    bookies: str
    autorecovery: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsRules:
    """Where the certificates of a cluster come from, and how long they last."""

    mode: TlsMode
    #: With ``TlsMode.ISSUER``.
    issuer: IssuerRef | None = None
    #: With ``TlsMode.SECRETS``.
    secrets: GivenSecrets | None = None
    clients: tuple[str, ...] = ()
    lifetime_ms: int = 0
    authority_lifetime_ms: int = 0
    settle_ms: int = 0
    #: No certificate is issued, renewed or asked for.
    paused: bool = False

    @property
    def is_on(self) -> bool:
        """Do bookies and clients speak TLS?"""
        return self.mode is not TlsMode.PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRules:
    """Which paths are open."""

    policies: bool
    clients_from: tuple[str, ...] = ()
    pages_from: tuple[str, ...] = ()
    pages: PagesMode = PagesMode.PLAIN

    @property
    def by_certificate(self) -> bool:
        """Are the pages by certificate?"""
        return self.pages is PagesMode.CERTIFICATE


PLAINTEXT: Final = TlsRules(mode=TlsMode.PLAINTEXT)
OPEN: Final = NetworkRules(policies=False)


def read(spec: Json, resource: Json, problems: list[Problem]) -> tuple[TlsRules, NetworkRules]:
    """Read both; what is left out is as the standing defaults of the resource say."""
    is_secure = standing_defaults.of(resource) is StandingDefaults.SECURE
    found = _tls(_good(tls.SHAPE, spec, "tls", problems), is_secure=is_secure)
    paths = _network(_good(network.SHAPE, spec, "network", problems), is_secure=is_secure)
    if paths.by_certificate and not found.is_on:
        rule = f"must be {PagesMode.PLAIN} without TLS: no process has a certificate to show"
        hint = f"set it to {PagesMode.PLAIN}, or have certificates (spec.tls)"
        problems.append(Problem("spec.network.pages", fields.shown(str(paths.pages)), rule, hint))
    return found, paths


def held_by_nobody(config: Mapping[str, str], tls: TlsRules) -> Iterator[Problem]:
    """Find rights to which no bookie could hold anybody; it would not start, or not say so.

    A caller is known by its certificate alone, so there are no rights without TLS.
    """
    access, owners = (config.get(name, NOT_HELD) for name in (ACCESS, OWNERS))
    if not tls.is_on and access != NOT_HELD:
        rule = f"must be {NOT_HELD} without TLS: callers are known by their certificates"
        hint = f"set it to {NOT_HELD}, or have certificates (spec.tls)"
        yield Problem(f"spec.config.{ACCESS}", fields.shown(access), rule, hint)
    is_off = not tls.is_on or config.get(ACCESS) == NOT_HELD
    if is_off and owners != NOT_HELD:
        where = "without TLS" if not tls.is_on else f"with {ACCESS}: {NOT_HELD}"
        rule = f"must be {NOT_HELD} {where}: nobody is held to be a ledger's owner then"
        hint = f"set it to {NOT_HELD}, or hold the rights of roles first"
        yield Problem(f"spec.config.{OWNERS}", fields.shown(owners), rule, hint)


def loosely(config: Mapping[str, str]) -> str:
    """Say that bookies do what no role of a caller allows; empty: they refuse it to each role."""
    match config.get(ACCESS):
        case "off":
            return f"spec.config.{ACCESS} is off: a certificate of any role may do everything"
        case "warn":
            return (
                f"spec.config.{ACCESS} is warn: what no role of a caller allows is done, and "
                "counted (zonekeeper_bookie_access_refusals_total)"
            )
        case _:
            return ""


def _good(shape: shapes.Shape, spec: Json, name: str, problems: list[Problem]) -> Json:
    """Give a section without empty fields; with a problem in it, an empty one."""
    given = spec.get(name)
    if given is None:
        return {}
    wrong = list(shapes.read(shape, f"spec.{name}", given))
    problems += wrong
    if wrong:
        return {}
    found = shapes.pruned(shape, given)
    assert isinstance(found, dict), "it was read"
    return found


def _tls(given: Json, *, is_secure: bool) -> TlsRules:
    default = TlsMode.OPERATOR if is_secure else TlsMode.PLAINTEXT
    mode = TlsMode(given.get("mode", default))
    if mode is TlsMode.PLAINTEXT:
        return PLAINTEXT
    issuer, secrets = given.get("issuerRef"), given.get("secrets")
    return TlsRules(
        mode=mode,
        issuer=None
        if issuer is None
        else IssuerRef(name=issuer["name"], kind=IssuerKind(issuer.get("kind", IssuerKind.ISSUER))),
        secrets=None if secrets is None else GivenSecrets(**secrets),
        clients=tuple(sorted(set(given.get("clients", ())))),
        lifetime_ms=_span(given, "lifetime"),
        authority_lifetime_ms=_span(given, "authorityLifetime"),
        settle_ms=_span(given, "settle"),
        paused=given.get("paused") is True,
    )


def _span(given: Mapping[str, object], name: str) -> int:
    kind, default = tls.SPANS[name]
    return kind.read(name, given.get(name, default))


def _network(given: Json, *, is_secure: bool) -> NetworkRules:
    return NetworkRules(
        policies=bool(given.get("policies", is_secure)),
        clients_from=tuple(sorted(set(given.get("clientsFrom", ())))),
        pages_from=tuple(sorted(set(given.get("pagesFrom", ())))),
        pages=PagesMode(given.get("pages", PagesMode.PLAIN)),
    )
