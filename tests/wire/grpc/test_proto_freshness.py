"""The committed code is what the ``.proto`` says, and the methods are what the service declares."""

import subprocess
import sys
from pathlib import Path

from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.grpc import grpc_edge
from zonekeeper.wire.host import methods
from zonekeeper.wire.pb import bookie_pb2 as pb

PROTO = "zonekeeper/wire/pb/bookie.proto"
ROOT = Path(pb.__file__).parents[3]


def test_the_generated_code_is_fresh(tmp_path: Path) -> None:
    plugin = Path(sys.executable).with_name("protoc-gen-mypy")
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT)),
            *(f"--python_out={tmp_path}", f"--mypy_out={tmp_path}"),
            *(f"--plugin=protoc-gen-mypy={plugin}", PROTO),
        ],
        check=True,
        capture_output=True,
    )
    for name in ("bookie_pb2.py", "bookie_pb2.pyi"):
        made = (tmp_path / PROTO).with_name(name).read_text()
        kept = (ROOT / PROTO).with_name(name).read_text()
        assert made == kept, f"{name} is stale: run `make proto`"


def test_every_method_of_the_service_is_implemented() -> None:
    service = pb.DESCRIPTOR.services_by_name["Bookie"]
    assert service.full_name == grpc_edge.SERVICE
    implemented = {
        *(kind.value for kind in StreamKind),
        *(call.name for call in methods.CALLS),
        *(subscription.name for subscription in methods.SUBSCRIPTIONS),
    }
    assert implemented == set(service.methods_by_name)
