"""The lab as a fixture; where it cannot be had, the tests are skipped, and in CI they fail.

With ``ZONEKEEPER_KUBECONFIG`` the same suite runs against the Kubernetes cluster that the file
names, without the tests that stop nodes or reach pods (``needs_lab``). `make test-kind` sets it.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cluster import given, installation, namespaces, toolchain
from tests.cluster.given import GivenCluster
from tests.cluster.installation import Clusters
from tests.cluster.lab import Lab
from tests.support import image_root, zookeeper

#: Of the metadata store's own client: for a busy machine, which may stand still for a while.
PATIENCE_SECONDS = 60

#: Why the lab's programs could not be built.
_NOT_BUILT = pytest.StashKey[toolchain.UnavailableError]()
#: What the Dockerfile makes.
_IMAGE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker, which is no lane of its own."""
    config.addinivalue_line("markers", "needs_lab: stops nodes or reaches pods")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only the lab can do, where another cluster is named."""
    if given.kubeconfig() is not None:
        for item in items:
            if item.get_closest_marker("needs_lab") is not None:
                item.add_marker(pytest.mark.skip(reason=given.NOT_HERE))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build all of the lab's programs before its first test, and the image if a test wants it.

    The first time that takes longer than a test may (``limits``) on a busy machine,
    and has a limit of its own. From inside the lab's network nothing can be fetched.
    """
    wanted = {
        name
        for item in session.items
        if isinstance(item, pytest.Function)
        for name in item.fixturenames
    }
    if session.config.option.collectonly or "lab" not in wanted:
        return
    if "image" in wanted:
        session.config.stash[_IMAGE] = image_root.made(Path(tempfile.mkdtemp(prefix="image-")))
    try:
        for program in (
            toolchain.KUBERNETES_PROGRAM,
            toolchain.HELM_PROGRAM,
            toolchain.KIND_PROGRAM,
        ):
            toolchain.build(program)
    except toolchain.UnavailableError as error:
        session.config.stash[_NOT_BUILT] = error


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A control plane and nodes in three zones, two of them in zone a, in their own network."""
    folder: Path = tmp_path_factory.mktemp("lab")
    try:
        if (error := pytestconfig.stash.get(_NOT_BUILT, None)) is not None:
            raise error
        if (kubeconfig := given.kubeconfig()) is not None:
            yield GivenCluster(folder, kubeconfig)
            return
        with namespaces.network(), Lab(folder, {"a": 2, "b": 1, "c": 1}) as running:
            yield running
    except (toolchain.UnavailableError, namespaces.NoNamespaceError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no lab on this machine: {error}")


@pytest.fixture(scope="session")
def image(pytestconfig: pytest.Config) -> Iterator[Path]:
    """A folder that stands for the image's ``/opt/zonekeeper``."""
    root = pytestconfig.stash[_IMAGE]
    yield root
    shutil.rmtree(root.parent)


@pytest.fixture(scope="session")
def operator(lab: Lab) -> Lab:
    """The lab with the operator installed from the chart, under the rights that ship."""
    installation.install(lab)
    return lab


@pytest.fixture(scope="session")
def metadata_servers(lab: Lab) -> Iterator[str]:
    """A ZooKeeper that pods reach: its ``host:port``."""
    if isinstance(lab, GivenCluster):
        yield lab.start_metadata()
        return
    with zookeeper.single(host=namespaces.HOST_ADDRESS) as ensemble:
        yield ensemble.addresses


@pytest.fixture
def store(lab: Lab, metadata_servers: str) -> Iterator[KazooClient]:
    """A client that looks at the metadata store past all of our code."""
    with ExitStack() as stack:
        address = metadata_servers
        if isinstance(lab, GivenCluster):
            address = stack.enter_context(lab.forwarded_metadata())
        client = KazooClient(address, timeout=PATIENCE_SECONDS)
        client.start(timeout=PATIENCE_SECONDS)
        try:
            yield client
        finally:
            client.stop()
            client.close()


@pytest.fixture(scope="session")
def new_spaces(operator: Lab, metadata_servers: str) -> Callable[[], Clusters]:
    """Make a namespace and a root of its own for BookieClusters; it stays."""
    numbers = itertools.count(1)

    def make() -> Clusters:
        space = f"space-{next(numbers)}"
        operator.apply([installation.namespace(space)])
        return Clusters(operator, space, f"zk://{metadata_servers}/{space}/ledgers")

    return make


@pytest.fixture
def new_clusters(
    operator: Lab, new_spaces: Callable[[], Clusters]
) -> Iterator[Callable[[], Clusters]]:
    """Make namespaces that go after the test, with all that is in them.

    The bookies of every test before would take more of the machine than the test that runs.
    """
    made: list[str] = []

    def make() -> Clusters:
        clusters = new_spaces()
        made.append(clusters.space)
        return clusters

    yield make
    if made:
        operator.kubectl("delete", "namespace", "--wait=false", *made, check=False)
