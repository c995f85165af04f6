"""May the bookies get this image? The image itself says which formats it reads. Pure.

Before a bookie gets an image that none runs, a pod of the image prints the image's formats. They
are compared with the formats that took up each bookie's disk, which stand in the bookie's record:

- The image must read what was written: on disks and in the metadata, each format's highest version
  is within the image's range. An older image that does not is refused.
- The image and what runs must speak to each other: they have a version of the wire in common.

What is unknown counts as ``BEFORE``: the formats of the releases that could not say them. So does
an image whose command does not know the question. A bookie refuses a disk that it cannot read by
itself, too; here this is known before a bookie was taken down.

An image is asked while the template of a zone has another one. It reaches no template before it was
vetted, also where a roll to yet another image is in its midst. One exception heals a roll at once:
in a zone in the midst of its steps, the image that a pod of the zone still runs is put back without
a question.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.metadata.formats import release_formats
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.release_formats import NONE, WIRE, FormatRange, ReleaseFormats
from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.roll.gates import GateWait, RollGate
from zonekeeper.operator.roll.order import ZoneSet
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import formats_pod
from zonekeeper.operator.sight.formats_pod import NEVER_RAN, FormatsPod
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId

#: The formats of the releases that could not say them. They never change.
BEFORE: Final = ReleaseFormats(
    version="0.1.0 or older",
    wire={WIRE: FormatRange(1, 1)},
    disk={
        "checkpoint": FormatRange(1, 3),
        "log-end": FormatRange(1, 1),
        "boots": FormatRange(1, 1),
        "known-metadata": FormatRange(1, 1),
        "cookie": FormatRange(5, 5),
    },
    metadata={
        "record": FormatRange(1, 1),
        "ledger": FormatRange(2, 3),
        "cookie": FormatRange(5, 5),
    },
)
#: The exit code of a command line that is wrong, and the words beside it for an unknown command.
_WRONG_COMMAND: Final = 2
_NO_SUCH_COMMAND: Final = "No such command 'formats'"


@dataclass(frozen=True, slots=True)
class Vetted:
    """The image reads what is there, and speaks to what runs."""

    formats: ReleaseFormats


@dataclass(frozen=True, slots=True)
class ImageUnasked:
    """The pod that asks the image is to be made."""


@dataclass(frozen=True, slots=True)
class ImageAsked:
    """The answer is not there yet."""

    why: str


@dataclass(frozen=True, slots=True)
class NoImageAnswer:
    """The pod ended without an answer."""

    why: str
    #: Its container never ran, so another pod may have an answer.
    again: bool


@dataclass(frozen=True, slots=True)
class RefusedImage:
    """The image does not fit to what is there."""

    why: str


Vetting: TypeAlias = Vetted | ImageUnasked | ImageAsked | NoImageAnswer | RefusedImage


def vet(
    image: str, asked: FormatsPod | None, running: Mapping[BookieId, ReleaseFormats | None]
) -> Vetting:
    """Judge an image; ``running`` has the formats of each bookie, None: they are unknown."""
    if asked is None:
        return ImageUnasked()
    if asked.leaving:
        return ImageAsked(f"image {image} is asked anew once pod {asked.name} has gone")
    if asked.exit_code is None:
        return ImageAsked(_waits(image, asked))
    formats = _answer(asked)
    if formats is None:
        said = " ".join(asked.words.split())[:500] or "nothing"
        return NoImageAnswer(
            f"image {image}: pod {asked.name} was to print the image's formats, and ended with "
            f"exit code {asked.exit_code}; its last words: {said}; is it an image of zonekeeper? "
            "Correct spec.image, or delete the pod to ask again",
            again=asked.exit_code == NEVER_RAN,
        )
    reasons = list(_reasons(formats, running))
    if not reasons:
        return Vetted(formats)
    more = f" ({len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
    return RefusedImage(
        f"image {image} is zonekeeper {formats.version}, and must not run here: "
        f"{reasons[0]}{more}; "
        "nothing was changed: ask for an image that is not older than what runs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSight:
    """What the roll does about the image now."""

    #: Make the pod that asks it.
    ask: bool = False
    #: Remove these pods.
    forget: tuple[FormatsPod, ...] = ()
    #: The gate that a step waits for; None: the image may be used.
    wait: GateWait | None = None

    @property
    def is_free(self) -> bool:
        """May the image reach a zone's template?"""
        return self.wait is None


def sight(desired: Desired, observed: Observed, sets: Iterable[ZoneSet]) -> ImageSight:
    """Say what is to be done before the first step, or the next one, may begin."""
    image = desired.image
    name = formats_pod.name_of(desired.name, image)
    others = tuple(one for one in observed.asked if one.name != name and not one.leaving)
    asked = next((one for one in observed.asked if one.name == name), None)
    if not any(_is_new_to(zone, image) for zone in sets):
        done = () if asked is None or asked.leaving else (asked,)
        return ImageSight(forget=(*others, *done))
    root = observed.root
    if not isinstance(root, RootFound) or root.work is None:
        return ImageSight(forget=others, wait=_gate(f"image {image}: the root was not read"))
    records = root.work.records
    running = {bookie: None if it is None else it.formats for bookie, it in records.items()}
    match vet(image, asked, running):
        case Vetted():
            return ImageSight(forget=others)
        case ImageUnasked():
            why = f"image {image} is to be asked for its formats"
            return ImageSight(ask=True, forget=others, wait=_gate(why))
        case NoImageAnswer(why, again):
            assert asked is not None, "it has ended"
            return ImageSight(forget=(*others, asked) if again else others, wait=_gate(why))
        case ImageAsked(why) | RefusedImage(why):
            return ImageSight(forget=others, wait=_gate(why))


def _is_new_to(zone: ZoneSet, image: str) -> bool:
    """Does a zone that the roll has not reached stand with another image?"""
    if zone.found is None or zone.is_reached:
        return False
    return owned_objects.image_of(zone.found["spec"]["template"]["spec"]) != image


def _gate(what: str) -> GateWait:
    return GateWait(RollGate.IMAGE_NOT_VETTED, what)


def _waits(image: str, asked: FormatsPod) -> str:
    what = f"image {image} is asked for its formats by pod {asked.name}"
    return what if asked.trouble is None else f"{what}: {asked.trouble.told}"


def _answer(asked: FormatsPod) -> ReleaseFormats | None:
    if asked.exit_code == _WRONG_COMMAND and _NO_SUCH_COMMAND in asked.words:
        return BEFORE
    if asked.exit_code != 0:
        return None
    try:
        return release_formats.parse(asked.words)
    except MalformedError:
        return None


def _reasons(
    new: ReleaseFormats, running: Mapping[BookieId, ReleaseFormats | None]
) -> Iterator[str]:
    for bookie, told in sorted(running.items()):
        old = told or BEFORE
        for place, wrote, reads in (
            ("disk", old.disk, new.disk),
            ("metadata", old.metadata, new.metadata),
        ):
            for name, written in sorted(wrote.items()):
                readable = reads.get(name, NONE)
                if not readable.lowest <= written.highest <= readable.highest:
                    yield (
                        f"bookie {bookie} (zonekeeper {old.version}) writes {place} format {name} "
                        f"in version {written.highest}, and the image reads {readable}"
                    )
        ours, theirs = new.wire.get(WIRE, NONE), old.wire.get(WIRE, NONE)
        if min(ours.highest, theirs.highest) < max(ours.lowest, theirs.lowest):
            yield (
                f"bookie {bookie} (zonekeeper {old.version}) and its clients speak wire version "
                f"{theirs}, and the image speaks {ours}"
            )
