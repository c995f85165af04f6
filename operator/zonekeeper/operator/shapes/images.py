"""Images: one that does not move, and which of two is the older one. Pure.

Only tags of the form x.y.z are compared. A digest says exactly what is run, so an image with a
digest may have any tag.
"""

import re
from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.shapes.shapes import Rule
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

#: A registry may have a port.
_NAME: Final = "[a-z0-9][-a-z0-9._]{0,254}((:[0-9]{1,5})?/[-a-z0-9._/]{1,254})?"
_TAG: Final = ":[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_DIGEST: Final = "@sha256:[0-9a-f]{64}"
IMAGE_MAX: Final = 512

IMAGE: Final = fields.Text(
    f"{_NAME}({_TAG}({_DIGEST})?|{_DIGEST})",
    "an image with a tag or a digest",
    "registry.example/zonekeeper:0.1.0",
)
_MOVES: Final = ":latest"
#: The digits of a part of a version; more would not fit into the number that CEL compares.
_PART: Final = "[0-9]{1,5}"
_VERSION: Final = re.compile(rf":({_PART})[.]({_PART})[.]({_PART})$")


def stays(image: object) -> bool:
    """Is it the same image tomorrow?"""
    return not str(image).endswith(_MOVES)


#: The tag ``latest`` is another image tomorrow.
STAYS: Final = Rule(
    cel=f"!self.endsWith('{_MOVES}')",
    holds=stays,
    words="must not have the tag latest, which is another image after the next push, so that the "
    "bookies of one cluster would run different versions; write the tag of a version, or add the "
    "digest",
)


OLDER_RULE: Final = "must not be of an older version than the bookies run"
OLDER_FIX: Final = (
    "write a version that is not older; its data may have a form that the older one cannot read"
)


def problems(image: object) -> Iterator[Problem]:
    """Find an image that moves; None: there is none, or it cannot be read."""
    if image is not None and not stays(image):
        rule, _, fix = STAYS.words.partition("; ")
        yield Problem("spec.image", fields.shown(image), rule, fix)


def version(image: str) -> tuple[int, ...] | None:
    """Give the version that an image's tag says; None: the tag has not the form x.y.z."""
    found = _VERSION.search(image.partition("@")[0])
    return None if found is None else tuple(map(int, found.groups()))


def is_older(image: str, than: str) -> bool:
    """Do both tags say a version, and is the first one the lower?"""
    one, other = version(image), version(than)
    return one is not None and other is not None and one < other


def is_not_older_cel(new: str, old: str) -> str:
    """Give the opposite of ``is_older`` in CEL; ``new`` and ``old`` are expressions there."""
    found = f"find(r':{_PART}[.]{_PART}[.]{_PART}$')"
    parts = "tag.substring(1).split('.')"
    number = f"int({parts}[0]) * 10000000000 + int({parts}[1]) * 100000 + int({parts}[2])"
    return (
        f"[[{old}, {new}].map(image, image.split('@')[0].{found})"
        f".map(tag, tag == '' ? -1 : {number})]"
        ".all(both, both[0] < 0 || both[1] < 0 || both[0] <= both[1])"
    )
