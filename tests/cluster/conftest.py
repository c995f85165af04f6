"""The lab as a fixture; where it cannot be had, the tests are skipped, and in CI they fail."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import namespaces, toolchain
from tests.cluster.lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A control plane and one node in each of three zones, in a network of their own."""
    folder: Path = tmp_path_factory.mktemp("lab")
    try:
        toolchain.build(toolchain.KUBERNETES_PROGRAM)
        with namespaces.network(), Lab(folder, {"a": 1, "b": 1, "c": 1}) as running:
            yield running
    except (toolchain.UnavailableError, namespaces.NoNamespaceError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no lab on this machine: {error}")
