"""``zonekeeper operator``: run the operator, print its definitions, say what it would do."""

import asyncio
import json
import logging
import sys
import time
from pathlib import Path

import click
import yaml

from zonekeeper.metadata.commands import exits, opening, options, yaml_files
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.operator.adoption import reading
from zonekeeper.operator.adoption.reading import AdoptionPreflight
from zonekeeper.operator.certificates import client_certificate
from zonekeeper.operator.certificates.client_certificate import (
    GIVEN_ROLES,
    WantedCertificate,
)
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import SECRETS, Json
from zonekeeper.operator.kubernetes.api_server import ApiServer
from zonekeeper.operator.lead import checking
from zonekeeper.operator.plan import preflight_text
from zonekeeper.operator.plan.preflight import ResourcePreflight
from zonekeeper.operator.probe import probe_process
from zonekeeper.operator.run import preflighting, running, settings
from zonekeeper.operator.run.settings import OperatorSettings
from zonekeeper.wire.identity.principals import Role
from zonekeeper.wire.running import logs
from zonekeeper.wire.signing import folders
from zonekeeper.wire.signing.folders import IssuedFiles


@click.group(name="operator")
def commands() -> None:
    """Run bookie clusters on Kubernetes."""


@commands.command(name="run", epilog="Example: zonekeeper operator run --namespace logs")
@options.each_of(settings.SETTINGS)
def run_command(**flags: str | tuple[str, ...] | None) -> None:
    """Serve BookieCluster resources until SIGTERM.

    It uses the pod's service account, or else the kubeconfig that KUBECONFIG names.
    """
    checked = options.given(settings.parse, flags)
    logs.set_up(checked.logging, {"process": "operator"})
    # It logs a line for each event.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    with exits.reported():
        asyncio.run(_run(checked))


@commands.command(name="probe", epilog="Example: zonekeeper operator probe --away b")
@options.each_of(probe_process.SETTINGS)
def probe_command(**flags: str | None) -> None:
    """Write to a cluster while one of its zones is away, and say what a writer sees of it.

    The operator runs it during a drill. It ends when the zone was away and is back. The exit code
    is 1 if an acknowledged entry is lost, or if it could not write.
    """
    checked = options.given(probe_process.parse, flags)
    logs.set_up(checked.logging, {"process": "probe"})
    with exits.reported():
        click.echo(asyncio.run(probe_process.run(checked)))


@commands.command(name="check", epilog="Example: zonekeeper operator check --namespace logs")
@options.each_of(settings.CHECKED)
def check_command(**flags: str | tuple[str, ...] | None) -> None:
    """Say whether an operator acts; exit code 1 if none does.

    It waits up to 40 seconds for a renewal of each Lease.
    """
    checked = options.given(settings.parse, flags)
    with exits.reported():
        asyncio.run(_check(checked))


@commands.command(name="crds", epilog="Example: zonekeeper operator crds > crds.yaml")
def crds_command() -> None:
    """Print the custom resource definitions, to be applied before the operator is started."""
    click.echo("# Made by `zonekeeper operator crds`; make crds writes it again.")
    click.echo(yaml.dump(crd.definition(), Dumper=_Plain, sort_keys=False, width=100), nl=False)


@commands.command(name="plan", epilog="Example: zonekeeper operator plan -f cluster.yaml -n logs")
@click.option("-f", "--file", required=True, type=click.Path(path_type=Path), help="The resource.")
@click.option("-n", "--namespace", metavar="NAME", help="Its namespace, if FILE does not say it.")
@click.option("--image", metavar="IMAGE", help="The operator's own, if FILE names no image.")
@options.OUTPUT
def plan_command(file: Path, namespace: str | None, image: str | None, output: str) -> None:
    """Say what the operator would do if a BookieCluster was applied; nothing is changed.

    FILE is the resource in YAML; - reads standard input. The live cluster is looked at through
    KUBECONFIG, and its metadata store, if that is reached from here.

    The exit code is 0 if the operator would do it, 1 if it refuses (the answer says why) or if
    Kubernetes was not reached, and 2 if FILE cannot be read.
    """
    with exits.reported():
        given = preflighting.resource_of(yaml_files.load(file), namespace, str(file))
        found = asyncio.run(_preflight(given, image, opening.quick()))
    if output == "json":
        click.echo(json.dumps(preflight_text.plain(found), indent=2, sort_keys=True))
    else:
        for line in preflight_text.lines(found):
            click.echo(line)
    sys.exit(exits.answer(yes=not found.refused))


@commands.command(
    name="adopt", epilog="Example: zonekeeper operator adopt --from statefulset/log-a -n logs"
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="statefulset/NAME",
    help="A StatefulSet of bookies that run, and that no resource controls.",
)
@click.option("-n", "--namespace", default="default", show_default=True, metavar="NAME")
@options.OUTPUT
def adopt_command(source: str, namespace: str, output: str) -> None:
    """Print a resource that takes over bookies which run already; nothing is changed.

    Comments before it say what would change, and which pods would be made anew: none is the aim.
    Apply it, and the operator takes the objects over, as its annotation says.

    The exit code is 0 if the operator would take them over, 1 if something keeps it from that (the
    comments say what), and 2 if no resource can be read off what runs.
    """
    kind, _, name = source.rpartition("/")
    if kind not in ("statefulset", "statefulsets", "sts", "statefulset.apps") or not name:
        raise click.UsageError(f"--from: {source}: must be statefulset/NAME")
    with exits.reported():
        read = asyncio.run(_adoption(namespace, name, opening.quick()))
    if output == "json":
        whole = {"resource": read.resource, "plan": preflight_text.plain(read.found)}
        click.echo(json.dumps(whole, indent=2, sort_keys=True))
    else:
        for line in preflight_text.lines(read.found):
            click.echo(f"# {line}")
        text = yaml.dump(read.resource, Dumper=_Plain, sort_keys=False, width=100)
        click.echo(text, nl=False)
    sys.exit(exits.answer(yes=not read.found.refused))


@commands.command(
    name="client-cert",
    epilog="Example: zonekeeper operator client-cert billing --cluster log -n logs --to ./tls",
)
@click.argument("name")
@click.option("--cluster", required=True, metavar="NAME", help="The BookieCluster.")
@click.option("-n", "--namespace", required=True, metavar="NAME", help="Its namespace.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in GIVEN_ROLES]),
    default=Role.CLIENT.value,
    show_default=True,
    help="What the certificate lets its holder do.",
)
@click.option("--to", type=click.Path(path_type=Path), metavar="FOLDER", help="Where files go.")
@click.option("--secret", metavar="NAME", help="A new Secret in the namespace, instead of files.")
def client_cert_command(
    name: str,
    cluster: str,
    namespace: str,
    role: str,
    to: Path | None,
    secret: str | None,
) -> None:
    """Issue a certificate for an application, signed by the cluster's authority.

    NAME is shown in audits. It writes tls.crt, tls.key and ca.crt into FOLDER, or into a Secret.
    It uses KUBECONFIG, and needs the right to read the Secret CLUSTER-ca-tls. The certificate lasts
    90 days and is not renewed: make it again before that, and after each rotation of the authority.
    A name in spec.tls.clients has a Secret that is renewed.
    """
    if (to is None) == (secret is None):
        raise click.UsageError("give either --to FOLDER or --secret NAME")
    wanted = WantedCertificate(
        namespace=namespace,
        cluster=cluster,
        name=name,
        role=Role(role),
    )
    with exits.reported():
        files = asyncio.run(_client_cert(wanted, secret))
        if to is not None:
            for path in folders.write(files, to):
                click.echo(str(path))
        else:
            click.echo(f"Secret {namespace}/{secret}")


class _Plain(yaml.SafeDumper):
    """A dumper that writes equal parts out each time; others refer to the first one."""

    def ignore_aliases(self, data: object) -> bool:
        """Refer to nothing."""
        return True


async def _preflight(given: Json, image: str | None, timeouts: Timeouts) -> ResourcePreflight:
    kubernetes = ApiServer.from_surroundings()
    try:
        return await preflighting.look(
            kubernetes, lambda at: open_store(at, timeouts), given, own_image=image
        )
    finally:
        await kubernetes.close()


async def _adoption(namespace: str, name: str, timeouts: Timeouts) -> AdoptionPreflight:
    kubernetes = ApiServer.from_surroundings()
    try:
        return await reading.look(kubernetes, lambda at: open_store(at, timeouts), namespace, name)
    finally:
        await kubernetes.close()


async def _run(checked: OperatorSettings) -> None:
    kubernetes = ApiServer.from_surroundings()
    try:
        await running.run(kubernetes, checked)
    finally:
        await kubernetes.close()


async def _client_cert(wanted: WantedCertificate, secret: str | None) -> IssuedFiles:
    kubernetes = ApiServer.from_surroundings()
    try:
        files = await client_certificate.issued(
            kubernetes,
            wanted,
            wall_ms=int(time.time() * 1_000),  # noqa: TID251 a command's clock
        )
        if secret is not None:
            body = client_certificate.secret(files, wanted, secret)
            await kubernetes.create(SECRETS, body)
        return files
    finally:
        await kubernetes.close()


async def _check(checked: OperatorSettings) -> None:
    kubernetes = ApiServer.from_surroundings()
    try:
        for place in checked.places:
            namespace = place.namespace if checked.namespaces else ""
            holder = await checking.acts(kubernetes, place, namespace, checked.installation)
            click.echo(f"{holder} acts: it holds and renews the Lease {place}")
    finally:
        await kubernetes.close()
