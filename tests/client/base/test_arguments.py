"""Arguments that are no such thing are refused in words, before anything is begun."""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import pytest

from tests.client.api.test_closed import listed
from tests.client.lab import Lab, played
from zonekeeper.client.api import client as clients
from zonekeeper.client.base import arguments
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.grpc.tls import TlsFiles

Custom = Mapping[str, bytes]


@pytest.mark.parametrize("value", [1.0, "1", None, True, b"1"], ids=repr)
def test_a_ledger_id_is_an_int(value: object) -> None:
    with pytest.raises(TypeError, match=f"ledger_id is an int, not {type(value).__name__}"):
        arguments.ledger_id(value)


@pytest.mark.parametrize("value", [-1, 1 << 63])
def test_a_ledger_id_is_within_bounds(value: int) -> None:
    with pytest.raises(ValueError, match=f"ledger_id is between 0 and .*, not {value}"):
        arguments.ledger_id(value)


def test_what_is_meant_passes() -> None:
    for number in (0, (1 << 63) - 1):
        assert arguments.ledger_id(number) == number
    arguments.check_password(b"")
    for quorums in (None, Quorums(ensemble=3, write=3, ack=2)):
        arguments.check_quorums(quorums)
    for digest in (None, *Digest):
        arguments.check_digest(digest)
    for custom in (None, {}, {"gr\u00fc\u00dfe": b"\xff"}):
        arguments.check_custom(custom)


REFUSED: list[tuple[str, type[Exception], Callable[[clients.Client], Awaitable[object]]]] = [
    ("password is bytes", TypeError, lambda c: c.create(password=cast(bytes, "secret"))),
    ("quorums is", TypeError, lambda c: c.create(quorums=cast(Quorums, "3/3/2"))),
    ("digest is", TypeError, lambda c: c.create(digest=cast(Digest, "CRC32C"))),
    ("digest is", TypeError, lambda c: c.create(digest=cast(Digest, ""))),
    (
        "quorums.ensemble is between 1 and 32, not 33",
        ValueError,
        lambda c: c.create(quorums=Quorums(ensemble=33, write=3, ack=2)),
    ),
    (
        "quorums.write is between 1 and 3, not 4",
        ValueError,
        lambda c: c.create(quorums=Quorums(ensemble=3, write=4, ack=2)),
    ),
    (
        "quorums.ack is between 1 and 3, not 0",
        ValueError,
        lambda c: c.create(quorums=Quorums(ensemble=3, write=3, ack=0)),
    ),
    (
        "quorums.ack_zones is between 1 and 2, not 3",
        ValueError,
        lambda c: c.create(quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=3)),
    ),
    ("deferred_sync is bool", TypeError, lambda c: c.create(deferred_sync=cast(bool, "no"))),
    ("custom is a mapping", TypeError, lambda c: c.create(custom=cast(Custom, [("a", b"")]))),
    ("a key of custom is a str", TypeError, lambda c: c.create(custom=cast(Custom, {b"a": b""}))),
    ("custom\\['a'\\] is bytes", TypeError, lambda c: c.create(custom=cast(Custom, {"a": "b"}))),
    ("cannot be written as UTF-8", ValueError, lambda c: c.create(custom={"\ud800": b""})),
    ("ledger_id is an int", TypeError, lambda c: c.create(ledger_id=cast(LedgerId, 1.5))),
    ("ledger_id is between", ValueError, lambda c: c.create(ledger_id=LedgerId(-1))),
    ("ledger_id is an int", TypeError, lambda c: c.open(cast(LedgerId, "1"))),
    ("password is bytes", TypeError, lambda c: c.open(LedgerId(1), password=cast(bytes, "a"))),
    ("recover is bool or None", TypeError, lambda c: c.open(1, recover=cast(bool, "yes"))),
    ("ledger_id is between", ValueError, lambda c: c.metadata(LedgerId(-1))),
    ("ledger_id is an int", TypeError, lambda c: c.delete(cast(LedgerId, None))),
]


@played()
async def test_each_call_looks_at_its_arguments_first(lab: Lab) -> None:
    async with lab.client() as client:
        for said, kind, call in REFUSED:
            with pytest.raises(kind, match=said):
                await call(client)
        assert await listed(client) == []
        await (await client.create()).close()


SETTINGS: list[tuple[str, type[Exception], Callable[[], object]]] = [
    ("read_bytes is between 1 and", ValueError, lambda: ClientConfig(read_bytes=-5)),
    ("read_bytes is between 1 and", ValueError, lambda: ClientConfig(read_bytes=1 << 32)),
    ("read_bytes is an int, not float", TypeError, lambda: ClientConfig(read_bytes=cast(int, 1e6))),
    ("writer_budget_bytes is", ValueError, lambda: ClientConfig(writer_budget_bytes=0)),
    ("add_timeout_ms is", ValueError, lambda: ClientConfig(add_timeout_ms=0)),
    ("quiet_ms is at least 0, not -1", ValueError, lambda: ClientConfig(quiet_ms=-1)),
    ("start_timeout_ms is", TypeError, lambda: ClientConfig(start_timeout_ms=cast(int, True))),
    ("zone is str or None, not", TypeError, lambda: ClientConfig(zone=cast(ZoneName, b"a"))),
    ("links is LinkSettings", TypeError, lambda: ClientConfig(links=cast(LinkSettings, None))),
    ("store is Timeouts", TypeError, lambda: ClientConfig(store=cast(Timeouts, 5))),
    ("tls is TlsFiles or None, not", TypeError, lambda: ClientConfig(tls=cast(TlsFiles, "ca.pem"))),
    ("limits are positive", ValueError, lambda: LinkSettings(read_timeout_ms=0)),
]


def test_settings_that_mean_nothing_are_refused_where_they_are_made() -> None:
    for said, kind, make in SETTINGS:
        with pytest.raises(kind, match=said):
            make()


def test_a_setting_is_bounded_only_by_what_it_is_for() -> None:
    large = 4 << 30
    config = ClientConfig(
        writer_budget_bytes=large,
        add_timeout_ms=large,
        quiet_ms=large,
        read_bytes=large - 1,
        start_timeout_ms=large,
    )
    assert config.writer_budget_bytes == large


async def test_an_address_is_text() -> None:
    with pytest.raises(TypeError, match="uri is a str, such as zk://host"):
        async with clients.connect(cast(str, None)):
            pass
