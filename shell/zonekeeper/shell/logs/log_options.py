"""Options of ``zonekeeper log``: a log's rules, a message's key and headers."""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import BinaryIO, Final, cast

import click

from zonekeeper.log.formats.messages import LogMessage, MessageHeader
from zonekeeper.metadata.commands.exits import RefusedCommand
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base import units
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.shell.commands import ledger_options
from zonekeeper.shell.commands.ledger_options import QuorumsParameter

NAME: Final = click.argument("name", metavar="LOG")
_COUNT: Final = click.IntRange(min=1, max=(1 << 63) - 1)

#: The options of rules, by the fields of ``LogRules``.
RULE_OPTIONS: Final = {
    "quorums": "quorums",
    "minimum": "minimum",
    "downgrade_after_ms": "downgrade-after",
    "downgrade_lag_ms": "downgrade-lag",
    "downgrade_lag_bytes": "downgrade-lag-bytes",
    "rotate_bytes": "rotate-bytes",
    "rotate_messages": "rotate-messages",
    "rotate_after_ms": "rotate-after",
    "keep_ms": "keep-for",
    "keep_bytes": "keep-bytes",
    "cursor_wait_ms": "cursor-wait",
    "cursor_wait_bytes": "cursor-wait-bytes",
}


class DurationParameter(click.ParamType[int]):
    """A duration as in the policy: ``30m``; the command gets milliseconds."""

    name = "DURATION"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read a duration above zero."""
        duration_ms = value if isinstance(value, int) else units.duration_ms(str(value))
        if not duration_ms:
            self.fail(f"{value!r}: write a number above 0 and ms, s, m, h or d, as 4h", param, ctx)
        return duration_ms


class SizeParameter(click.ParamType[int]):
    """A size as in the policy, ``64MiB``, or a number of bytes."""

    name = "SIZE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read a size above zero."""
        text = str(value)
        size = int(text) if text.isascii() and text.isdecimal() else units.size_bytes(text)
        if not size or size.bit_length() > _SIZE_BITS:
            self.fail(f"{text[:40]!r}: write bytes, or KiB, MiB, GiB, TiB, as 64MiB", param, ctx)
        return size


_SIZE_BITS: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRules:
    """The rules that a command line names, by the fields of ``LogRules``."""

    given: Mapping[str, object]

    def on(self, rules: LogRules, policy: Quorums) -> LogRules:
        """Give other rules with these in them; ``ack_zones`` come from the policy's quorums."""
        changes: dict[str, object] = {}
        for field, value in self.given.items():
            changes[field] = (
                ledger_options.quorums(value, policy) if isinstance(value, tuple) else value
            )
        return replace(rules, **changes)  # type: ignore[arg-type]  # each has its field's type


def rules(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a log's rules; the command gets them as ``rules``."""

    @functools.wraps(command)
    def called(**options: object) -> None:
        given = {field: options.pop(field) for field in RULE_OPTIONS}
        named = {field: value for field, value in given.items() if value is not None}
        command(rules=GivenRules(given=named), **options)

    with_rules: Callable[..., None] = called
    for option in (
        _rule("cursor_wait_bytes", SizeParameter(), "SIZE", "Trim so much later for a cursor."),
        _rule("cursor_wait_ms", DurationParameter(), "DURATION", "Trim so much later for one."),
        _rule("keep_bytes", SizeParameter(), "SIZE", "Trim what is beyond so many bytes."),
        _rule("keep_ms", DurationParameter(), "DURATION", "Trim messages that are older."),
        _rule("rotate_after_ms", DurationParameter(), "DURATION", "Rotate a ledger this old."),
        _rule("rotate_messages", _COUNT, "N", "Rotate a ledger of so many messages."),
        _rule("rotate_bytes", SizeParameter(), "SIZE", "Rotate a ledger of so many bytes."),
        _rule("downgrade_lag_bytes", SizeParameter(), "SIZE", "Give a bookie up so far behind."),
        _rule("downgrade_lag_ms", DurationParameter(), "DURATION", "Give one up so late."),
        _rule("downgrade_after_ms", DurationParameter(), "DURATION", "Without full ones so long."),
        _rule("minimum", QuorumsParameter(), "E/W/A", "The least quorums while bookies are away."),
        _rule("quorums", QuorumsParameter(), "E/W/A", "Ensemble, write and ack quorum."),
    ):
        with_rules = option(with_rules)
    return with_rules


def _rule(
    field: str, kind: click.ParamType[object], metavar: str, text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{RULE_OPTIONS[field]}", field, type=kind, metavar=metavar, help=text)


def defaults(names: tuple[str, ...]) -> Mapping[str, object]:
    """Give the default of each named rule, by the fields of ``LogRules``."""
    by_option = {option: field for field, option in RULE_OPTIONS.items()}
    wanted = {by_option[name] for name in names}
    return {one.name: one.default for one in fields(LogRules) if one.name in wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How messages are shown, and how many of them at most (None: all)."""

    most: int | None
    is_long: bool
    raw: bool


def shown(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of how messages are shown; the command gets them as ``shown``."""

    @functools.wraps(command)
    def called(*, most: int | None, is_long: bool, raw: bool, **rest: object) -> None:
        command(shown=Shown(most=most, is_long=is_long, raw=raw), **rest)

    form = "Each on a line, with sequence, id, time, key and headers."
    raw = "Put nothing between messages.  [default: newlines]"
    with_options: Callable[..., None] = called
    for option in (
        click.option("--raw", is_flag=True, help=raw),
        click.option("--long", "-l", "is_long", is_flag=True, help=form),
        click.option("--max", "most", type=_COUNT, metavar="N", help="At most N messages."),
    ):
        with_options = option(with_options)
    return with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenMessages:
    """The messages that a command line gives: one, or an input with one a line."""

    #: The one message; of an input, its messages' key and headers.
    template: LogMessage
    is_one: bool
    file: BinaryIO | None

    def source(self) -> BinaryIO:
        """Give the input: the file, or standard input."""
        if self.file is not None:
            return self.file
        context = click.get_current_context()
        return cast("BinaryIO", ledger_options.InputParameter().convert("-", None, context))


def given_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of messages to be appended; the command gets them as ``given``."""

    @functools.wraps(command)
    def called(
        *,
        file: BinaryIO | None,
        payload: str | None,
        key: str | None,
        headers: tuple[str, ...],
        **rest: object,
    ) -> None:
        if payload is not None and file is not None:
            raise RefusedCommand("FILE and --payload are given: give one of them")
        template = LogMessage(
            payload=os.fsencode(payload or ""),
            key=None if key is None else os.fsencode(key),
            headers=tuple(map(_header, headers)),
        )
        given = GivenMessages(template=template, is_one=payload is not None, file=file)
        command(given=given, **rest)

    pairs = "A header of each message; may be given several times."
    one = "Append this one message, and read no input."
    with_options: Callable[..., None] = called
    for option in (
        click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help=pairs),
        click.option("--key", metavar="TEXT", help="The key of each message."),
        click.option("--payload", metavar="TEXT", help=one),
        click.argument("file", type=ledger_options.InputParameter(), required=False),
    ):
        with_options = option(with_options)
    return with_options


def _header(pair: str) -> MessageHeader:
    name, sign, value = pair.partition("=")
    if not name or not sign:
        raise RefusedCommand(f"--header {pair}: write NAME=VALUE")
    return name, os.fsencode(value)
