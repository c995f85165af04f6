"""gRPC ignores an option that it does not know; so each of ours must be one of its own."""

import importlib.util
import re
from pathlib import Path

import pytest

from zonekeeper.wire.grpc import grpc_edge

NAMES = sorted({name for name, _ in [*grpc_edge.client_options("bk"), *grpc_edge.server_options()]})


@pytest.fixture(scope="module")
def words_of_grpc() -> bytes:
    found = importlib.util.find_spec("grpc._cython.cygrpc")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_each_option_is_one_that_grpc_knows(name: str, words_of_grpc: bytes) -> None:
    assert re.search(rb"(?<![a-z_.])" + re.escape(name.encode()) + rb"(?![\w.])", words_of_grpc)


def test_a_bookie_bears_the_pings_that_clients_send_while_nothing_else_goes() -> None:
    pings_ms = dict(grpc_edge.client_options("bk"))["grpc.keepalive_time_ms"]
    borne_ms = dict(grpc_edge.server_options())["grpc.http2.min_ping_interval_without_data_ms"]
    assert isinstance(pings_ms, int)
    assert isinstance(borne_ms, int)
    assert borne_ms < pings_ms
