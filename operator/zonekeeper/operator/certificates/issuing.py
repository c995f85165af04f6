"""Does the steps of a rotation: reads the authority's Secret, signs, and writes.

A step names the Secret that it was decided from by uid and version. Before it signs, the Secret is
read and compared; every write says both again, so that the API server refuses one that was decided
on an older look. So two operators, or an operator and a person, never mix their changes.
"""

from typing import Final, assert_never

from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.certificates.renewing import (
    BundleAuthorities,
    CertificateStep,
    IssueCertificate,
    MakeAuthority,
    PromoteAuthority,
    TrustAuthorities,
)
from zonekeeper.operator.certificates.sights import SecretState
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import INSTANCE_LABEL, SECRETS, Json, Kubernetes
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.signing import pem

_OWN: Final = (
    tls_parts.CERTIFICATE,
    tls_parts.KEY,
    tls_parts.AUTHORITIES,
    secret_data.COMING_CERTIFICATE,
    secret_data.COMING_KEY,
)


class SecretChangedError(Trouble):
    """A Secret is not what was seen when this was decided: look again."""

    retryable = True


class Issuer:
    """Keeps the certificates of one resource."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes

    async def perform(self, step: CertificateStep, resource: Json) -> None:
        """Do one step; raises ``Trouble``."""
        match step:
            case MakeAuthority():
                await self._make(step, resource)
            case TrustAuthorities():
                await self._trust(step, resource)
            case PromoteAuthority():
                await self._promote(step, resource)
            case BundleAuthorities():
                await self._bundle(step, resource)
            case IssueCertificate():
                await self._issue(step, resource)
            case _:
                assert_never(step)

    async def _make(self, step: MakeAuthority, resource: Json) -> None:
        certificate, key = pem.made_authority(resource["metadata"]["name"], step.validity)
        made = pem.seen(certificate)
        assert made is not None, "it was just made"
        values, said = dict[str, bytes](), dict[str, str]()
        if step.seen is not None:
            item = await self._same(step.name, step.seen, resource)
            values, said = _values(item), _annotations(item)
        if step.signs:
            values = {tls_parts.CERTIFICATE: certificate, tls_parts.KEY: key}
            said = {secret_data.SETTLED: made.print}
        else:
            values |= {
                secret_data.COMING_CERTIFICATE: certificate,
                secret_data.COMING_KEY: key,
            }
        values[tls_parts.AUTHORITIES] = secret_data.bundle((*step.trusted, made))
        said = {secret_data.SETTLED: "", **said, secret_data.WORD: step.word}
        body = secret_data.authority(step.name, resource, step.seen, values, said)
        await self._write(_labelled(body, resource), step.seen)

    async def _trust(self, step: TrustAuthorities, resource: Json) -> None:
        item = await self._same(step.name, step.seen, resource)
        values = _values(item) | {tls_parts.AUTHORITIES: secret_data.bundle(step.trusted)}
        said = _annotations(item) | ({} if step.settled else {secret_data.SETTLED: ""})
        body = secret_data.authority(step.name, resource, step.seen, values, said)
        await self._write(_labelled(body, resource), step.seen)

    async def _promote(self, step: PromoteAuthority, resource: Json) -> None:
        item = await self._same(step.name, step.seen, resource)
        values = _values(item)
        if values[secret_data.COMING_KEY]:
            values[tls_parts.CERTIFICATE] = values.pop(secret_data.COMING_CERTIFICATE)
            values[tls_parts.KEY] = values.pop(secret_data.COMING_KEY)
        signs = pem.seen(values[tls_parts.CERTIFICATE])
        if signs is None:
            raise SecretChangedError(f"Secret {step.name} has no authority that could sign")
        said = _annotations(item) | {secret_data.SETTLED: signs.print}
        body = secret_data.authority(step.name, resource, step.seen, values, said)
        await self._write(_labelled(body, resource), step.seen)

    async def _bundle(self, step: BundleAuthorities, resource: Json) -> None:
        # An apply that left the key out would take it away.
        item = await self._same(step.name, step.seen, resource)
        kept = (tls_parts.CERTIFICATE, tls_parts.KEY)
        values: dict[str, bytes] = {key: secret_data.value(item, key) for key in kept}
        values[tls_parts.AUTHORITIES] = secret_data.bundle(step.trusted)
        await self._write(secret_data.leaf(step.name, resource, step.seen, values), step.seen)

    async def _issue(self, step: IssueCertificate, resource: Json) -> None:
        item = await self._same(step.authority_name, step.authority, resource)
        own = _values(item)
        certificate, key = pem.issued(
            step.subject, own[tls_parts.CERTIFICATE], own[tls_parts.KEY], step.validity
        )
        values = {
            tls_parts.CERTIFICATE: certificate,
            tls_parts.KEY: key,
            tls_parts.AUTHORITIES: secret_data.bundle(step.trusted),
        }
        await self._write(secret_data.leaf(step.name, resource, step.seen, values), step.seen)

    async def _same(self, name: str, seen: SecretState, resource: Json) -> Json:
        """Read a Secret that must be what was seen."""
        item = await self._kubernetes.get(SECRETS, resource["metadata"]["namespace"], name)
        if item is None or secret_data.state(item, resource) != seen:
            raise SecretChangedError(f"Secret {name} has changed since it was looked at")
        return item

    async def _write(self, body: Json, seen: SecretState | None) -> None:
        if seen is None:  # an apply would also write over a Secret that has come meanwhile
            await self._kubernetes.create(SECRETS, body)
        else:
            await self._kubernetes.apply(SECRETS, body)


def _values(item: Json) -> dict[str, bytes]:
    return {key: secret_data.value(item, key) for key in _OWN}


def _annotations(item: Json) -> dict[str, str]:
    return {
        name: secret_data.annotation(item, name) for name in (secret_data.SETTLED, secret_data.WORD)
    }


def _labelled(body: Json, resource: Json) -> Json:
    instance = resource.get("status", {}).get("instance")
    return body if instance is None else secret_data.with_instance(body, str(instance))


def instance_of(item: Json) -> str | None:
    """Give the instance that the certificates of an authority are of."""
    found = (item["metadata"].get("labels") or {}).get(INSTANCE_LABEL)
    return None if found is None else str(found)
