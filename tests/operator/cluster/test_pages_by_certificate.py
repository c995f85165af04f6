"""Pages by certificate, as a person chooses them for a cluster: what its pods are told."""

from typing import Final

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.operator.certificates.keeping import INSTANCE, Keeping
from tests.operator.cluster.test_seam import container, environment, told
from tests.operator.resources import SPACE, resource
from tests.operator.worlds import World
from zonekeeper.operator.certificates import issuer_objects, secret_data, subjects
from zonekeeper.operator.cluster import desired, network_objects, owned_objects, tls_parts
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, SECRETS, STATEFUL_SETS, Json
from zonekeeper.placement.base.settings import GivenSettings
from zonekeeper.replication.run import settings as repair_settings
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import seam

PAGES: Final[Json] = {"policies": True, "pages": "Certificate"}
PLAIN: Final[Json] = {"policies": True}
MODES: Final[tuple[Json, ...]] = (
    {"mode": "Operator"},
    {"mode": "Issuer", "issuerRef": {"name": "x"}},
    {"mode": "Secrets", "secrets": {"bookies": "a", "autorecovery": "b"}},
)


def wanted(**spec: object) -> Desired:
    found = desired.read(resource(**spec))
    assert isinstance(found, Desired), found
    return found


def owners(of: Desired) -> list[Json]:
    """Give all StatefulSets and Deployments."""
    made = owned_objects.all_of(of, resource(), INSTANCE)
    return [body for kind, body in made if kind in (STATEFUL_SETS, DEPLOYMENTS)]


def page_tls(owner: Json) -> TlsFiles | None:
    """Give what the process in a pod takes from its environment."""
    if container(owner)["name"] == owned_objects.CONTAINER:
        return told(owner).page_tls
    return repair_settings.parse({}, environment(owner)).page_tls


@pytest.mark.parametrize("tls", MODES, ids=lambda one: str(one["mode"]))
def test_every_process_serves_them_so_and_is_probed_over_tls(tls: Json) -> None:
    with_pages = wanted(tls=tls, network=PAGES)
    made = owners(with_pages)
    assert len(made) == 2 * len(with_pages.zones)
    for each in made:
        files = page_tls(each)
        assert files is not None
        assert str(files.certificate).startswith(f"{tls_parts.FOLDER}/")
        for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            asked = container(each)[probe]["httpGet"]
            assert asked == {"path": path, "port": "http", "scheme": "HTTPS"}


def test_by_default_nothing_is_told_of_them() -> None:
    for network in (PLAIN, {**PLAIN, "pages": "Plain"}):
        for each in owners(wanted(tls=MODES[0], network=network)):
            assert page_tls(each) is None
            assert seam.HTTP_TLS not in environment(each)
            assert "scheme" not in container(each)["readinessProbe"]["httpGet"]


def test_they_change_the_pods_alone_and_so_a_change_is_a_roll() -> None:
    def parts(network: Json) -> tuple[list[Json], list[str]]:
        found = owners(wanted(tls=MODES[0], network=network))
        return found, [one["metadata"]["annotations"][owned_objects.TEMPLATE] for one in found]

    (made, names), (before, names_before) = parts(PAGES), parts(PLAIN)
    assert not set(names) & set(names_before)
    for one, other in zip(made, before, strict=True):
        only = container(one)
        only["env"].remove({"name": seam.HTTP_TLS, "value": "on"})
        for probe in ("livenessProbe", "readinessProbe"):
            del only[probe]["httpGet"]["scheme"]
        assert one["spec"] == other["spec"]
    with_pages, without = (wanted(tls=MODES[0], network=one) for one in (PAGES, PLAIN))
    assert network_objects.all_of(with_pages) == network_objects.all_of(without)


def test_without_tls_they_are_refused() -> None:
    found = desired.read(resource(network=PAGES, tls={"mode": "Plaintext"}))
    assert isinstance(found, RefusedResource)
    (said,) = found.reasons
    assert said.startswith('spec.network.pages: "Certificate": must be Plain without TLS')
    assert "have certificates (spec.tls)" in said


def test_without_a_word_about_tls_a_new_resource_has_it() -> None:
    item = resource(network=PAGES)
    del item["spec"]["tls"]
    assert isinstance(desired.read(item), Desired)
    built = {**item, "status": {"instance": INSTANCE, "defaults": "Open"}}
    assert isinstance(desired.read(built), RefusedResource)


def test_a_process_of_a_release_without_them_passes_over_what_it_is_told() -> None:
    """It serves plain pages, so its probes fail: the roll halts at it. docs/operator.md says so."""
    before = [one for one in repair_settings.SETTINGS if one.environment != seam.HTTP_TLS]
    for each in owners(wanted(tls=MODES[0], network=PAGES)):
        given = GivenSettings(before, {}, environment(each))
        assert given.read("http", addresses.parse).port == seam.HTTP_PORT


def test_autorecovery_has_a_certificate_for_servers_only_where_it_shows_one() -> None:
    for network, names in ((PAGES, ("log-autorecovery",)), (PLAIN, ())):
        of = wanted(tls=MODES[1], network=network)
        (one,) = (
            each for each in subjects.all_of(of, INSTANCE, {}) if "autorecovery" in each.secret
        )
        assert one.dns == names
        uses = issuer_objects.certificate(of, one, resource())["spec"]["usages"]
        assert ("server auth" in uses) is bool(names)


async def test_the_certificate_of_autorecovery_is_issued_anew_when_they_are_chosen() -> None:
    keeping = Keeping(mode="Operator", settle="1s")

    async def uses() -> set[x509.ObjectIdentifier]:
        for _ in range(10):
            await keeping.turn()
        name = tls_parts.autorecovery_name(resource()["metadata"]["name"])
        item = await keeping.kubernetes.get(SECRETS, SPACE, name)
        assert item is not None
        shown = x509.load_pem_x509_certificate(secret_data.value(item, tls_parts.CERTIFICATE))
        return set(shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    assert await uses() == {ExtendedKeyUsageOID.CLIENT_AUTH}
    keeping.resource["spec"]["network"] = PAGES
    both = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert await uses() == both


async def test_a_cluster_that_runs_is_rolled_to_them_and_back() -> None:
    world = World(tls={"mode": "Operator"}, network=PLAIN)
    await world.settle()
    for pages, scheme in (("Certificate", "HTTPS"), ("Plain", None)):
        await world.change(network={**PLAIN, "pages": pages})
        await world.settle()
        assert (await world.conditions())["Ready"][0] == "True"
        for each in await world.kubernetes.list(STATEFUL_SETS, SPACE):
            assert container(each)["livenessProbe"]["httpGet"].get("scheme") == scheme
