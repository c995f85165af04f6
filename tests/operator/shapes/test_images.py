"""Only tags x.y.z are compared, and a digest says what is run whatever the tag is."""

import pytest

from zonekeeper.operator.shapes import images

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("image", "than", "answer"),
    [
        ("z:0.1.0", "z:0.2.0", True),
        ("z:0.9.0", "z:0.10.0", True),
        ("z:0.10.0", "z:0.9.0", False),
        ("z:1.0.0", "z:1.0.0", False),
        ("host:5000/z:0.1.9", f"other/z:0.2.0@{DIGEST}", True),
        (f"z:0.1.0@{DIGEST}", "z:0.2.0", True),
        ("z:V1", "z:0.2.0", False),
        (f"z:V1@{DIGEST}", "z:0.2.0", False),
        (f"z@{DIGEST}", "z:0.2.0", False),
        ("z:0.1.0", "z:main", False),
        ("z:0.1", "z:0.2.0", False),
        ("z:0.1.0-rc1", "z:0.2.0", False),
        ("z:v0.1.0", "z:0.2.0", False),
    ],
)
def test_an_image_is_older_if_both_tags_say_so(image: str, than: str, answer: bool) -> None:
    assert images.is_older(image, than) is answer


@pytest.mark.parametrize(
    ("image", "answer"),
    [
        ("z:latest", False),
        ("host:5000/z:latest", False),
        (f"z:latest@{DIGEST}", True),
        ("z:latest-1", True),
        ("latest:1", True),
    ],
)
def test_only_the_tag_latest_without_a_digest_moves(image: str, answer: bool) -> None:
    assert images.stays(image) is answer
    assert (not list(images.problems(image))) is answer
