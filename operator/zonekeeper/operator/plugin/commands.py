"""``kubectl zonekeeper``: clusters, seen and ordered about through their resources alone.

kubectl finds the program ``kubectl-zonekeeper`` on the path. It needs rights on BookieCluster
resources, and for ``report`` the right to read pods, their logs and events; it reaches neither pods
nor the metadata store. Orders are carried out by the operator, which answers in the status.

Exit codes are those of ``zonekeeper`` (``metadata/commands/exits.py``).
"""

import asyncio
import functools
import getpass
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypedDict, TypeVar, Unpack

import click

from zonekeeper.metadata.commands import exits, options
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.operator.kubernetes.api import REPLACE, RESTART, Json, Kubernetes
from zonekeeper.operator.people.answers import AnswerPhase, OrderAnswer
from zonekeeper.operator.plan.drills.drill_record import DrillRecord
from zonekeeper.operator.plugin import (
    drills,
    orders_made,
    person_place,
    report,
    rolls,
    status_text,
)
from zonekeeper.operator.plugin.ordering import OrderDesk
from zonekeeper.operator.plugin.orders_made import AskedByPerson
from zonekeeper.operator.plugin.person_place import PersonPlace
from zonekeeper.operator.roots.resource_orders import AskedFor
from zonekeeper.placement.base import fields
from zonekeeper.placement.zones.gate import Person

T = TypeVar("T")

_LOOK_EVERY_S: Final = 0.5
_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTarget:
    """The resource that a command is about, and the form of the answer."""

    place: PersonPlace
    name: str
    as_json: bool


class _GivenOrder(TypedDict):
    """The options of a command that gives an order."""

    target: PluginTarget
    reason: str
    by: str
    timeout: int
    yes: bool


def _user() -> str:
    try:
        return getpass.getuser()
    except OSError:
        return ""


def _on_resource(command: Callable[..., None]) -> Callable[..., None]:
    """Add what every command takes: the resource, and the place as kubectl takes it."""

    @functools.wraps(command)
    def called(
        *,
        name: str,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        output: str,
        **rest: object,
    ) -> None:
        place = PersonPlace(kubeconfig=kubeconfig, context=context, namespace=namespace)
        command(target=PluginTarget(place=place, name=name, as_json=output == "json"), **rest)

    whole: Callable[..., None] = called
    for add in (
        options.OUTPUT,
        click.option("-n", "--namespace", metavar="NAME", help="Otherwise that of the context."),
        click.option("--context", metavar="NAME", help="The context of the kubeconfig."),
        click.option("--kubeconfig", metavar="FILE", help="Otherwise KUBECONFIG, or kubectl's."),
        click.argument("name"),
    ):
        whole = add(whole)
    return whole


def _giving(command: Callable[..., None]) -> Callable[..., None]:
    """Add what every order takes."""
    for add in (
        options.YES,
        click.option(
            "--timeout",
            type=click.IntRange(5, 3_600),
            default=120,
            show_default=True,
            metavar="SECONDS",
            help="After this time the operator begins nothing any more.",
        ),
        click.option(
            "--by",
            default=_user,
            show_default="the user's name",
            metavar="NAME",
            help="The person's name, for the timeline.",
        ),
        click.option("--reason", required=True, metavar="TEXT", help="The reason, for people."),
    ):
        command = add(command)
    return _on_resource(command)


_ZONE: Final = click.option("--zone", metavar="ZONE", help="The zone whose losses are meant.")
_WHOLE: Final = click.option(
    "--cluster", "whole", is_flag=True, help="The hold of the whole cluster."
)
_FORCE: Final = click.option(
    "--force", is_flag=True, help="Although it is not known whether there is room for the copies."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def plugin() -> None:
    """See bookie clusters, and give orders about them, with rights on the resource alone."""


# ── looking ──


@plugin.command(epilog="Example: kubectl zonekeeper status log -n logs")
@_on_resource
def status(target: PluginTarget) -> None:
    """Show zones, conditions, what is held and why; exit code 1 unless all bookies are ready.

    The map has a line for each zone and a column for each upgrade domain: ready bookies of all.
    """
    found = _run(target, _resource)
    _show(target, status_text.plain(found), status_text.lines(found, _wall_ms()))
    sys.exit(exits.answer(yes=status_text.plain(found)["ready"]))


@plugin.command(epilog="Example: kubectl zonekeeper plan log -n logs")
@_on_resource
def plan(target: PluginTarget) -> None:
    """Show what the operator does next, and what it waits for.

    What a change would do is said by `zonekeeper operator plan -f FILE`.
    """
    found = _run(target, _resource)
    _show(target, status_text.plan(found), status_text.plan_lines(found))


@plugin.command("report", epilog="Example: kubectl zonekeeper report log -n logs --file r.tar.gz")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The new archive.  [default: zonekeeper-report-NAME.tar.gz]",
)
@_on_resource
def report_command(target: PluginTarget, file: Path | None) -> None:
    """Write an archive of resource, events, pods and the ends of logs; secrets are left out.

    Look through it before you give it away: a secret that looks like any other word stays.
    """
    path = file or Path(f"zonekeeper-report-{target.name}.tar.gz")
    now_ms = _wall_ms()

    async def collect(api: Kubernetes, namespace: str, name: str) -> dict[str, str]:
        resource = await person_place.resource(api, namespace, name)
        return await report.parts(api, namespace, resource, now_ms=now_ms)

    if path.exists():
        raise RefusedCommand(f"{path}: is there already: name another file with --file")
    files = _run(target, collect)
    with exits.reported():
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with os.fdopen(made, "wb") as writer:
            writer.write(report.archive(files, f"report-{target.name}", now_ms=now_ms))
    data: Json = {"file": str(path), "parts": sorted(files)}
    _show(target, data, [f"{path}: {len(files)} parts"])


# ── repair ──


@plugin.group()
def autorecovery() -> None:
    """Decide what may be repaired: the switch of all repair, and the gates."""


@autorecovery.command(epilog='Example: kubectl zonekeeper autorecovery enable log --reason "over"')
@_FORCE
@_giving
def enable(*, force: bool, **given: Unpack[_GivenOrder]) -> None:
    """Switch automatic replication on."""
    _order(given, AskedByPerson(asked=AskedFor.ENABLE, is_forced=force))


@autorecovery.command(epilog='Example: kubectl zonekeeper autorecovery disable log --reason "move"')
@_giving
def disable(**given: Unpack[_GivenOrder]) -> None:
    """Switch all automatic replication off, for every zone, until a person switches it on."""
    _order(given, AskedByPerson(asked=AskedFor.DISABLE))


@autorecovery.command(
    epilog='Example: kubectl zonekeeper autorecovery hold log --zone b --reason "it comes back"'
)
@_ZONE
@_WHOLE
@_giving
def hold(*, zone: str | None, whole: bool, **given: Unpack[_GivenOrder]) -> None:
    """Hold the losses of a zone, or of the whole cluster, until a person releases them."""
    _order(given, AskedByPerson(asked=AskedFor.HOLD, zone=_gate(zone, whole)))


@autorecovery.command(
    epilog='Example: kubectl zonekeeper autorecovery release log --zone b --reason "gone" --force'
)
@_ZONE
@_WHOLE
@_FORCE
@_giving
def release(*, zone: str | None, whole: bool, force: bool, **given: Unpack[_GivenOrder]) -> None:
    """Let the losses of a zone be repaired now, although the zone is not back.

    It releases the incident that the status shows, and no other. What is copied, and whether there
    is room, is counted by `zonekeeper autorecovery release --dry-run` alone; so --force is needed.
    """
    asked = AskedByPerson(asked=AskedFor.RELEASE, zone=_gate(zone, whole), is_forced=force)
    _order(given, asked)


# ── the roll ──


@plugin.group()
def roll() -> None:
    """Pause and resume the roll, and start all bookies anew."""


@roll.command(epilog="Example: kubectl zonekeeper roll pause log -n logs")
@_on_resource
def pause(target: PluginTarget) -> None:
    """Let no step begin; a step that has begun is finished. It sets spec.update.paused."""
    _edit(target, {"spec": {"update": {"paused": True}}}, "the roll is paused")


@roll.command(epilog="Example: kubectl zonekeeper roll resume log -n logs")
@_on_resource
def resume(target: PluginTarget) -> None:
    """Let steps begin again. A roll that has halted goes on when its cause is gone."""
    _edit(target, {"spec": {"update": {"paused": False}}}, "the roll may go on")


@roll.command(epilog="Example: kubectl zonekeeper roll restart log -n logs")
@options.YES
@_on_resource
def restart(target: PluginTarget, *, yes: bool) -> None:
    """Start all bookies and autorecovery processes anew, unit by unit, behind the roll's gates."""
    _confirm("Every bookie is started anew, unit by unit. Go on?", yes=yes)
    word = f"{_wall_ms()}-{secrets.token_hex(2)}"
    _edit(target, {"metadata": {"annotations": {RESTART: word}}}, "a restart is asked for")


# ── a bookie ──


@plugin.command(epilog='Example: kubectl zonekeeper drain log log-b-0 --reason "its rack is moved"')
@_giving
@click.argument("bookie")
def drain(*, bookie: str, **given: Unpack[_GivenOrder]) -> None:
    """Empty a bookie that serves, and keep it: it gets no new data until `release`.

    The command ends when the order stands; `status` shows how far it is.
    """
    _order(given, AskedByPerson(asked=AskedFor.DRAIN, bookie=bookie))


@plugin.command(
    "release", epilog='Example: kubectl zonekeeper release log log-b-0 --reason "stays"'
)
@_giving
@click.argument("bookie")
def release_bookie(*, bookie: str, **given: Unpack[_GivenOrder]) -> None:
    """Take the order to drain a bookie back: it gets new data again.

    What was copied stays copied.
    """
    _order(given, AskedByPerson(asked=AskedFor.TAKE_BACK, bookie=bookie))


@plugin.command("replace", epilog="Example: kubectl zonekeeper replace log log-b-0 -n logs")
@options.YES
@click.option("--end", is_flag=True, help="Take it back; nothing is deleted if nothing was yet.")
@_on_resource
@click.argument("bookie")
def replace_volume(target: PluginTarget, *, bookie: str, end: bool, yes: bool) -> None:
    """Empty a bookie that serves, and then give it another volume. It sets an annotation."""
    if not end:
        _confirm(f"{bookie} is emptied, and then its volume is deleted. Go on?", yes=yes)
    said = f"another volume of {bookie} is asked for{' no more' * end}; VolumesReady tells of it"
    _edit(target, {"metadata": {"annotations": {REPLACE: None if end else bookie}}}, said)


# ── a zone ──


@plugin.command(
    epilog='Example: kubectl zonekeeper drill log --zone b --for 10m --reason "once a year"'
)
@click.option("--zone", required=True, metavar="ZONE", help="The zone that goes away.")
@click.option("--for", "lasts", metavar="TIME", help="For so long, for example 10m; at most 1h.")
@click.option("--end", is_flag=True, help="Let the zone of a drill come back now.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the report.")
@click.option(
    "--secret",
    metavar="NAME",
    help="With what a client shows, for the probe.  [default: that of the client drill]",
)
@_giving
def drill(
    *,
    zone: str,
    lasts: str | None,
    end: bool,
    no_wait: bool,
    secret: str | None,
    **given: Unpack[_GivenOrder],
) -> None:
    """Take a zone away for a while, to see what becomes of its cluster; print the report.

    It is refused while anything is held or under way, and if a ledger would not be readable. It
    ends by itself, at once if an acknowledged entry is lost or another bookie is missing. The exit
    code is 0 if the zone was away for its time and nothing was lost.
    """
    if end is not (lasts is None):
        raise RefusedCommand("give either --for TIME or --end")
    if end:
        _order(given, AskedByPerson(asked=AskedFor.END_DRILL, zone=zone))
    asked = AskedFor.DRILL
    try:
        for_ms = fields.Duration().read("--for", str(lasts))
    except fields.InvalidFieldsError as error:
        raise RefusedCommand(str(error)) from None
    answer = _answered(given, AskedByPerson(asked=asked, zone=zone, for_ms=for_ms, secret=secret))
    if answer.phase is not AnswerPhase.DONE or no_wait:
        _end_with(given["target"], answer)
    click.echo(f"{answer.phase}: {answer.message}", err=True)

    async def follow(api: Kubernetes, namespace: str, name: str) -> DrillRecord:
        desk = _desk(api, namespace, name)
        return await drills.followed(desk, answer.token, lambda text: click.echo(text, err=True))

    record = _run(given["target"], follow)
    _show(given["target"], drills.plain(record), drills.report(record))
    sys.exit(exits.DONE if drills.is_completed(record) else exits.NOT)


# ── how it is done ──


def _gate(zone: str | None, whole: bool) -> str | None:
    if (zone is None) is not whole:
        raise RefusedCommand("name one hold: give either --zone ZONE or --cluster")
    return zone


def _order(given: _GivenOrder, asked: AskedByPerson) -> NoReturn:
    """Give an order, follow it to its answer, show that, and end with its exit code."""
    _end_with(given["target"], _answered(given, asked))


def _answered(given: _GivenOrder, asked: AskedByPerson) -> OrderAnswer:
    """Give an order, and follow it to its answer."""
    target = given["target"]
    person = Person(name=given["by"], reason=given["reason"])
    if fault := person.fault():
        raise RefusedCommand(fault)

    async def look(api: Kubernetes, namespace: str, name: str) -> str:
        found = await person_place.resource(api, namespace, name)
        return orders_made.question(found, asked)

    _confirm(f"{_run(target, look)} Go on?", yes=given["yes"])
    until_ms = _wall_ms() + given["timeout"] * 1_000

    async def give(api: Kubernetes, namespace: str, name: str) -> OrderAnswer:
        desk = _desk(api, namespace, name)
        token = secrets.token_hex(8)
        return await desk.give(
            lambda found: orders_made.made(found, asked, person, token=token, until_ms=until_ms)
        )

    return _run(target, give)


def _end_with(target: PluginTarget, answer: OrderAnswer) -> NoReturn:
    data: Json = {"token": answer.token, "phase": str(answer.phase), "message": answer.message}
    _show(target, data, [f"{answer.phase}: {answer.message}"])
    codes = {AnswerPhase.DONE: exits.DONE, AnswerPhase.REFUSED: exits.REFUSED}
    sys.exit(codes.get(answer.phase, exits.NOT))


def _edit(target: PluginTarget, changes: Json, said: str) -> None:
    """Change the resource, and wait until the operator has looked at it."""

    async def change(api: Kubernetes, namespace: str, name: str) -> bool:
        return await rolls.changed(api, namespace, name, changes, pause=_look_again)

    is_seen = _run(target, change)
    late = "" if is_seen else "; the operator has not looked at it yet"
    _show(target, {"changed": True, "seen": is_seen}, [said + late])


def _desk(api: Kubernetes, namespace: str, name: str) -> OrderDesk:
    return OrderDesk(api=api, namespace=namespace, name=name, wall_ms=_wall_ms, pause=_look_again)


async def _look_again() -> None:
    await asyncio.sleep(_LOOK_EVERY_S)


async def _resource(api: Kubernetes, namespace: str, name: str) -> Json:
    return await person_place.resource(api, namespace, name)


def _run(
    target: PluginTarget, work: Callable[[Kubernetes, str, str], Coroutine[object, object, T]]
) -> T:
    """Do work at the API server; a trouble ends the command."""

    async def done() -> T:
        api, namespace = target.place.opened()
        try:
            return await work(api, namespace, target.name)
        finally:
            await api.close()

    with exits.reported():
        return asyncio.run(done())


def _show(target: PluginTarget, data: Json, lines: Iterable[str]) -> None:
    if target.as_json:
        click.echo(json.dumps(data, indent=2, sort_keys=True))
        return
    for line in lines:
        click.echo(line)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedCommand("no terminal, so no question can be asked: repeat with --yes")
    click.confirm(question, abort=True, err=True)


def _wall_ms() -> int:
    return int(time.time() * 1_000)  # noqa: TID251 a command's clock


def main() -> None:
    """Run ``kubectl-zonekeeper``; an interruption ends it with its own exit code."""
    try:
        plugin.main(prog_name="kubectl zonekeeper", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as abort:
        click.echo("Aborted!", err=True)
        said_no = sys.stdin.isatty() and not isinstance(abort.__context__, KeyboardInterrupt)
        sys.exit(exits.NOT if said_no else exits.INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(exits.INTERRUPTED)
