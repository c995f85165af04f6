"""Every contract test runs once for each transport."""

import pytest

from tests.wire.link import worlds


@pytest.fixture(
    params=[worlds.TwinWorld, worlds.GrpcWorld, worlds.SocketWorld], ids=["twin", "grpc", "socket"]
)
def run(request: pytest.FixtureRequest) -> worlds.Run:
    world: type[worlds.TwinWorld | worlds.GrpcWorld | worlds.SocketWorld] = request.param
    return world.run
