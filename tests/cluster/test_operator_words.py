"""A real API server refuses in words: it names the field, and says what must hold and what to do.

The resources are those of ``tests/operator/refused.py``, about which the operator is asked in
``tests/operator/cluster/test_refused.py``. Nothing is stored.
"""

import json
from collections.abc import Callable

import pytest

from tests.cluster.installation import Clusters, resource
from tests.operator.refused import RIGHT, WRONG, WrongSpec

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def clusters(new_spaces: Callable[[], Clusters]) -> Clusters:
    """One namespace for all of them."""
    return new_spaces()


def dry_run(clusters: Clusters, spec: dict[str, object]) -> str:
    item = resource("words", clusters.space, clusters.uri, **spec)
    return clusters.lab.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(item))


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name for wrong in WRONG])
def test_the_api_server_names_the_field_and_says_the_words(
    clusters: Clusters, wrong: WrongSpec
) -> None:
    with pytest.raises(OSError, match="kubectl") as refused:
        dry_run(clusters, wrong.spec)

    told = str(refused.value)
    assert wrong.path in told
    assert wrong.words in told
    assert "<nil>" not in told
    assert "should match" not in told


@pytest.mark.parametrize(("name", "spec"), RIGHT, ids=[name for name, _ in RIGHT])
def test_the_api_server_takes_what_is_right(
    clusters: Clusters, name: str, spec: dict[str, object]
) -> None:
    assert "dry run" in dry_run(clusters, spec), name


def test_a_name_that_services_cannot_have_is_refused_in_words(clusters: Clusters) -> None:
    item = resource("1log", clusters.space, clusters.uri)

    with pytest.raises(OSError, match="kubectl") as refused:
        clusters.lab.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(item))

    assert "metadata.name: " in str(refused.value)
    assert "must begin with a letter" in str(refused.value)
    assert "<nil>" not in str(refused.value)
