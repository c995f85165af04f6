"""``zonekeeper operator``: run the operator, and print the definitions that it needs."""

import asyncio
import logging

import click
import yaml

from zonekeeper.metadata.commands import exits, options
from zonekeeper.operator.cluster import crd
from zonekeeper.operator.kubernetes.api_server import ApiServer
from zonekeeper.operator.run import running, settings
from zonekeeper.operator.run.settings import OperatorSettings


@click.group(name="operator")
def commands() -> None:
    """Run bookie clusters on Kubernetes."""


@commands.command(name="run", epilog="Example: zonekeeper operator run --namespace logs")
@options.each_of(settings.SETTINGS)
def run_command(**flags: str | tuple[str, ...] | None) -> None:
    """Serve BookieCluster resources until SIGTERM.

    It uses the pod's service account, or else the kubeconfig that KUBECONFIG names.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in (
        "kopf.objects",
        "aiohttp.access",
    ):  # they log a line for each event and each probe
        logging.getLogger(chatty).setLevel(logging.WARNING)
    checked = options.given(settings.parse, flags)
    with exits.reported():
        asyncio.run(_run(checked))


@commands.command(name="crds", epilog="Example: zonekeeper operator crds > crds.yaml")
def crds_command() -> None:
    """Print the custom resource definitions, to be applied before the operator is started."""
    click.echo("# Made by `zonekeeper operator crds`; make crds writes it again.")
    click.echo(yaml.dump(crd.definition(), Dumper=_Plain, sort_keys=False, width=100), nl=False)


class _Plain(yaml.SafeDumper):
    """A dumper that writes equal parts out each time; others refer to the first one."""

    def ignore_aliases(self, data: object) -> bool:
        """Refer to nothing."""
        return True


async def _run(checked: OperatorSettings) -> None:
    kubernetes = ApiServer.from_surroundings()
    try:
        await running.run(kubernetes, checked)
    finally:
        await kubernetes.close()
