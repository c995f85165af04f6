"""``zonekeeper policy``: the rules shown, compared, and set unless another owns them.

A FILE is YAML. It holds the rules as they stand under ``policy`` in a BookieCluster. A field that
is left out has its default.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import yaml

from zonekeeper.metadata.bookies import bookie_watch
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import exits, yaml_files
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.placement.base.fields import InvalidFieldsError, Plain
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy import legality, rules_data, unnamed
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.gate import Person
from zonekeeper.shell.reaching import reaching
from zonekeeper.shell.reaching.reaching import Place
from zonekeeper.shell.reports import ungated

_OWNER: Final = "shell"
_FILE: Final = click.argument("file", type=click.Path(path_type=Path))

_Change = tuple[str, Plain, Plain]


@click.group()
def policy() -> None:
    """See, compare and set the rules of a cluster."""


@policy.command(epilog="Example: zonekeeper policy show > policy.yaml")
@reaching.on_cluster
def show(place: Place) -> None:
    """Show every rule that is in force, defaults included."""
    found, bookies = reaching.run(_look(place))
    if found is None:
        raise RefusedCommand("there is no policy yet: set one with `zonekeeper policy set FILE`")
    _warn_of_zones(found, bookies)
    if place.as_json:
        reaching.print_json(rules_data.record(found))
        return
    click.echo(f"# version {found.version}, set by {found.owner}")
    click.echo(yaml.safe_dump(rules_data.rules(found), sort_keys=False), nl=False)


@policy.command(epilog="Example: zonekeeper policy diff policy.yaml")
@_FILE
@reaching.on_cluster
def diff(file: Path, place: Place) -> None:
    """Show what would change if FILE were set. Exit code 0: nothing, 1: something."""
    wanted = _load(file)
    standing, bookies = reaching.run(_look(place))
    changes = _changes(standing, wanted)
    _warn_of_zones(wanted, bookies)
    _print(changes, place)
    sys.exit(exits.answer(yes=not changes))


@policy.command(
    name="set",
    epilog='Example: zonekeeper policy set policy.yaml --reason "repair slower" --dry-run',
)
@_FILE
@click.option(
    "--version",
    type=click.IntRange(0),
    help="Set it only if this version is in force (0: none), as `show` has shown it.",
)
@reaching.YES
@reaching.by_person_or_dry_run
@reaching.on_cluster
def set_command(
    file: Path,
    version: int | None,
    dry_run: bool,
    yes: bool,
    who: Person,
    place: Place,
) -> None:
    """Put all rules in FILE in force at once, for every process of the cluster."""
    wanted = _load(file)
    standing, bookies = reaching.run(_look(place))
    _refuse(standing, version)
    changes = _changes(standing, wanted)
    _warn_of_zones(wanted, bookies)
    _print(changes, place)
    if dry_run or not changes:
        return
    reaching.confirm("Put these rules in force?", yes=yes)
    replaces = 0 if standing is None else standing.version
    now = reaching.run(_write(place, wanted, replaces, who))
    if not place.as_json:
        click.echo(f"version {now.version} is in force")


def _load(file: Path) -> Policy:
    """Read the rules of a file; refuse rules that are malformed or that placement cannot keep."""
    try:
        found = rules_data.from_rules(yaml_files.load(file))
    except (yaml_files.UnreadableFileError, InvalidFieldsError) as error:
        raise RefusedCommand(str(error)) from None
    verdict = legality.judge(found.quorums, found.placement)
    if not verdict.legal:
        lines = "\n".join(f"  {one.reason} ({one.example})" for one in verdict.refusals)
        raise RefusedCommand(f"placement cannot keep what these rules promise:\n{lines}")
    for one in verdict.warnings:
        click.echo(f"warning: {one.reason}", err=True)
    return replace(found, owner=_OWNER)


def _refuse(standing: Policy | None, version: int | None) -> None:
    if standing is not None and standing.owner != _OWNER:
        raise RefusedCommand(
            f"the policy is owned by {standing.owner}, which would undo the change: change its "
            "BookieCluster resource instead"
        )
    known = 0 if standing is None else standing.version
    if version is not None and version != known:
        raise RefusedCommand(f"version {known} is in force, and not {version}: look at it again")


def _warn_of_zones(rules: Policy, bookies: Topology) -> None:
    """Warn of each zone that these rules never hold or do not name, with the bookies there are."""
    never_held = [one.reason for one in ungated.warnings(rules, bookies)]
    for why in (*never_held, *unnamed.warnings(bookies, rules.placement).values()):
        click.echo(f"warning: {why}", err=True)


async def _look(place: Place) -> tuple[Policy | None, Topology]:
    """Read the policy in force, and the bookies."""
    async with reaching.opened(place) as cluster:
        standing = await policy_store.read(cluster)
        async with bookie_watch.watch(cluster) as seen:
            return standing, await anext(seen)


async def _write(place: Place, wanted: Policy, replaces: int, who: Person) -> Policy:
    async with reaching.opened(place) as cluster:
        now = await policy_store.write(cluster, wanted, replaces=replaces)
        await _tell(cluster, now, who)
        return now


async def _tell(cluster: Cluster, now: Policy, who: Person) -> None:
    chronicle = reaching.chronicle(cluster, who.name)
    await chronicle.write("policy", f"version {now.version}", who.reason)


def _changes(standing: Policy | None, wanted: Policy) -> list[_Change]:
    """Give each rule that differs: its name, its value now (None: no policy), its new value."""
    before = {} if standing is None else dict(_leaves(rules_data.rules(standing)))
    after = dict(_leaves(rules_data.rules(wanted)))
    return [
        (name, before.get(name), value)
        for name, value in after.items()
        if standing is None or before[name] != value
    ]


def _leaves(data: Mapping[str, Plain], above: str = "") -> Iterator[tuple[str, Plain]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _print(changes: list[_Change], place: Place) -> None:
    if place.as_json:
        reaching.print_json([{"rule": name, "is": old, "to": new} for name, old, new in changes])
        return
    for name, old, new in changes:
        click.echo(f"{name}: {_shown(old)} -> {_shown(new)}")
    if not changes:
        click.echo("nothing would change")


def _shown(value: Plain) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "(not set)" if value is None else str(value)
