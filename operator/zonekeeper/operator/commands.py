"""``zonekeeper operator``: run it, and print what it needs installed."""

import asyncio
import logging
import sys

import click
import yaml

from zonekeeper.operator.cluster import crd
from zonekeeper.operator.kubernetes.api import KubernetesError
from zonekeeper.operator.kubernetes.api_server import ApiServer, NoApiServerError
from zonekeeper.operator.run import running
from zonekeeper.operator.run.running import OperatorSettings


@click.group(name="operator")
def commands() -> None:
    """Run bookie clusters on Kubernetes."""


@commands.command(name="run", epilog="Example: zonekeeper operator run --namespace logs")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    envvar="ZONEKEEPER_NAMESPACES",
    show_envvar=True,
    help="Serve this namespace only; can be given several times (in the environment: separated by "
    "spaces).  [default: all]",
)
@click.option(
    "--liveness",
    envvar="ZONEKEEPER_LIVENESS",
    show_envvar=True,
    metavar="URL",
    help="Answer liveness probes there, for example http://0.0.0.0:8080/healthz.",
)
def run_command(namespaces: tuple[str, ...], liveness: str | None) -> None:
    """Serve BookieCluster resources until SIGTERM.

    It uses the pod's service account, or else the kubeconfig that KUBECONFIG names.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("kopf.objects", "aiohttp.access"):  # a line an event, a line a probe
        logging.getLogger(chatty).setLevel(logging.WARNING)
    settings = OperatorSettings(namespaces=namespaces, liveness=liveness)
    try:
        asyncio.run(_run(settings))
    except (NoApiServerError, KubernetesError) as error:
        click.echo(f"zonekeeper operator: {error}", err=True)
        sys.exit(1)


@commands.command(name="crds", epilog="Example: zonekeeper operator crds > crds.yaml")
def crds_command() -> None:
    """Print the custom resource definitions, to be applied before the operator is started."""
    click.echo("# Made by `zonekeeper operator crds`; make crds writes it again.")
    click.echo(yaml.dump(crd.definition(), Dumper=_Plain, sort_keys=False, width=100), nl=False)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time, where YAML would refer to the first."""

    def ignore_aliases(self, data: object) -> bool:
        """Refer to nothing."""
        return True


async def _run(settings: OperatorSettings) -> None:
    kubernetes = ApiServer.from_surroundings()
    try:
        await running.run(kubernetes, settings)
    finally:
        await kubernetes.close()
