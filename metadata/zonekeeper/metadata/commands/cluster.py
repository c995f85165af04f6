"""``zonekeeper cluster``: make a cluster's root in the metadata store, and look at it."""

import asyncio
import json
import uuid
from dataclasses import dataclass

import click

from zonekeeper.metadata.access.identities import Identities
from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, restored
from zonekeeper.metadata.cluster.cluster import BookieCounts, Cluster
from zonekeeper.metadata.commands import exits, opening, options, securing
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.saving import securing as guarding
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import Write
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy


@click.group()
def cluster() -> None:
    """Make a cluster's root in the metadata store, and look at it."""


@cluster.command(
    name="init", epilog="Example: zonekeeper cluster init --metadata sqlite:///tmp/meta.db"
)
@options.METADATA
@options.OUTPUT
@securing.IDENTITIES
def init_command(address: str, output: str, file: str | None) -> None:
    """Make the root that the address names, completely or not at all; a second run does no harm.

    On Kubernetes the operator does this, and on one machine `zonekeeper local up`.
    """
    with exits.reported():
        made, root = asyncio.run(_init(address, securing.read(file)))
    if output == "json":
        _print_json({"made": made, "instance": root.instance, "root": root.root.path})
    else:
        click.echo(f"{'made' if made else 'was there already'}: {root}")


@cluster.command(name="info", epilog="Example: zonekeeper cluster info")
@options.METADATA
@options.OUTPUT
def info_command(address: str, output: str) -> None:
    """Show the cluster's instance, the number of its bookies, and its policy."""
    with exits.reported():
        info = asyncio.run(_info(address))
    if output == "json":
        _print_json(info.plain())
        return
    counts, policy = info.counts, info.policy
    click.echo(f"cluster:   {info.cluster}")
    click.echo(
        f"bookies:   {counts.cookies} with a cookie; {counts.writable} writable and "
        f"{counts.read_only} read-only now"
    )
    if policy is None:
        click.echo("policy:    none yet: no ledger can be created")
    else:
        click.echo(
            f"policy:    version {policy.version}, set by {policy.owner}: zones "
            f"{', '.join(policy.placement.zones)}, quorums {policy.quorums}"
        )
    if info.restored:
        click.echo(
            "restored:  marked as restored to an older state: bookies collect nothing; "
            "see `zonekeeper metadata restored`"
        )
    if info.waiting:
        click.echo(
            f"waiting:   {', '.join(info.waiting)} would collect many ledgers without a record of "
            "their deletion; see `zonekeeper metadata collections`"
        )


async def _init(address: str, wanted: Identities | None) -> tuple[bool, Cluster]:
    """Make the root, with its identities if some are given; say whether it is new."""
    instance = str(uuid.uuid4())
    async with opening.opened_store(address, must_exist=False) as store:
        also: list[Write] = []
        if wanted is not None:
            also = await guarding.beginning(store, Root(store.root), wanted, instance)
        found = await clusters.initialise(store, instance, also=also)
    return found.instance == instance, found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Info:
    cluster: Cluster
    counts: BookieCounts
    #: None if none was ever set.
    policy: Policy | None
    restored: bool
    #: The bookies that wait for a person before they collect, or whose question is unreadable.
    waiting: tuple[BookieId, ...]

    def plain(self) -> dict[str, object]:
        """Give the information as plain data, with the policy as its record."""
        return {
            "instance": self.cluster.instance,
            "root": self.cluster.root.path,
            "bookies": {
                "cookies": self.counts.cookies,
                "writable": self.counts.writable,
                "readOnly": self.counts.read_only,
            },
            "policy": None if self.policy is None else rules_data.record(self.policy),
            "restored": self.restored,
            "collectionsWaiting": list(self.waiting),
        }


async def _info(address: str) -> _Info:
    async with opening.opened_cluster(address) as found:
        return _Info(
            cluster=found,
            counts=await clusters.count_bookies(found),
            policy=await policy_store.read(found),
            restored=await restored.read(found) is not None,
            waiting=tuple(
                bookie
                for bookie, one in sorted((await held_collections.read_all(found)).items())
                if isinstance(one, UnreadableError) or one.permit is None
            ),
        )


def _print_json(data: dict[str, object]) -> None:
    click.echo(json.dumps(data, indent=2, sort_keys=True))
