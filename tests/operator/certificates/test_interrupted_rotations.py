"""A rotation that an operator, or the API server, leaves in the middle is gone on with."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.operator.certificates import handshakes
from tests.operator.certificates.handshakes import AUTHORITY, secret
from tests.operator.certificates.keeping import Keeping
from tests.operator.resources import NAME
from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.kubernetes.api import Json, KubernetesError, ObjectKind
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes

APP: Final = tls_parts.client_name(NAME, "app")
#: Those of three zones, of autorecovery and of one client.
SECRETS: Final = 5


class DiedError(Exception):
    """The operator ended here."""


async def kept() -> Keeping:
    found = Keeping(mode="Operator", settle="1s", clients=["app"])
    await found.rest()
    return found


async def _calls_of_a_rotation() -> tuple[list[int], int]:
    """Give the calls that write, and the number of all; what dies between two leaves the same."""
    found, calls, writes = await kept(), 0, list[int]()

    def count(verb: str, kind: ObjectKind) -> None:
        nonlocal calls
        if verb != "get":
            writes.append(calls)
        calls += 1

    found.kubernetes.disturb = count
    found.rotate("please")
    await found.rest()
    return writes, calls


def _at(call: int, error: Exception) -> Callable[[str, ObjectKind], None]:
    """Raise this at one of the calls."""
    left = itertools.count(call, -1)

    def disturb(verb: str, kind: ObjectKind) -> None:
        if next(left) == 0:
            raise error

    return disturb


def signed_by(found: Keeping) -> bytes:
    return secret_data.value(secret(found.kubernetes, AUTHORITY), tls_parts.CERTIFICATE)


@pytest.mark.parametrize("part", range(3))
async def test_an_operator_that_dies_at_any_call_of_a_rotation_is_continued(
    part: int, tmp_path: Path
) -> None:
    writes, _ = await _calls_of_a_rotation()
    assert len(writes) == 3 * SECRETS + 3
    for fatal in (*writes[part::3], writes[-1] + 1):
        found = await kept()
        before = signed_by(found)
        found.rotate("please")
        found.kubernetes.disturb = _at(fatal, DiedError())
        with pytest.raises(DiedError):
            await found.rest()
        found.kubernetes.disturb = lambda verb, kind: None
        found.restart()
        await found.rest()

        assert signed_by(found) != before, f"died at call {fatal}"
        handshakes.shake_all(found.kubernetes, tmp_path, APP)


async def test_a_call_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    found = await kept()
    writes, calls = await _calls_of_a_rotation()
    for failing in (*writes[::4], *range(0, calls, 40)):
        found = await kept()
        before = signed_by(found)
        found.rotate("please")
        found.kubernetes.disturb = _at(failing, KubernetesError(500, "not now"))
        await found.rest()

        assert signed_by(found) != before
    handshakes.shake_all(found.kubernetes, tmp_path, APP)


class NotingKubernetes(MemoryKubernetes):
    """Notes the keys that each write of a Secret names: an apply takes away what it leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[tuple[str, frozenset[str]]] = []

    async def apply(self, kind: ObjectKind, body: Json, *, subresource: str = "") -> None:
        """Note it, and do it."""
        self.named.append((body["metadata"]["name"], frozenset(body["data"])))
        await super().apply(kind, body, subresource=subresource)


async def test_every_write_names_all_that_a_secret_has() -> None:
    found = await kept()
    noting = NotingKubernetes()
    found.kubernetes = noting
    await found.rest()
    found.rotate("please")
    await found.rest()

    assert {name for name, _ in noting.named} > {AUTHORITY, APP}
    for name, keys in noting.named:
        assert keys == frozenset(secret(noting, name)["data"]), name
