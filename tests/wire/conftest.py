"""What the tests of each transport with TLS share: two authorities, and files that one signed."""

import pytest

from tests.support.certificates import Authorities, Authority, certified
from tests.wire.link.worlds import BOOKIE
from zonekeeper.wire.grpc.tls import TlsFiles


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    folder = tmp_path_factory.mktemp("certificates")
    return Authorities(Authority(folder / "ours"), Authority(folder / "theirs"))


@pytest.fixture(scope="module")
def bookie_files(authorities: Authorities) -> TlsFiles:
    return certified(authorities.ours, BOOKIE, "bookie")


@pytest.fixture(scope="module")
def client_files(authorities: Authorities) -> TlsFiles:
    return certified(authorities.ours, "client", "client")
