"""An image gets no bookie before it has said that it reads what is there."""

import dataclasses
from collections.abc import Mapping

import pytest

from tests.operator.resources import SPACE, resource
from tests.operator.roll.rolling_world import templates
from tests.operator.worlds import World
from zonekeeper.bookie.life import own_formats
from zonekeeper.metadata.formats import release_formats
from zonekeeper.metadata.formats.release_formats import FormatRange, ReleaseFormats
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLUSTER_LABEL,
    FORMATS_LABEL,
    PODS,
    RESTART,
    Json,
)
from zonekeeper.operator.roll import vetting
from zonekeeper.operator.roll.vetting import (
    ImageAsked,
    ImageUnasked,
    NoImageAnswer,
    RefusedImage,
    Vetted,
)
from zonekeeper.operator.sight import formats_pod, observed
from zonekeeper.operator.sight.formats_pod import NEVER_RAN, FormatsPod
from zonekeeper.operator.sight.pod_trouble import PodTrouble, TroubleKind
from zonekeeper.placement.base.ids import BookieId

IMAGE = NEW = "zonekeeper:0.2.0"
THIRD = "zonekeeper:0.3.0"
OURS = own_formats.of_this_release()
OLD_IMAGE = str(resource()["spec"]["image"])
A, B = BookieId("log-a-0"), BookieId("log-b-0")


def pod(
    words: str = "",
    exit_code: int | None = 0,
    trouble: PodTrouble | None = None,
    *,
    leaving: bool = False,
) -> FormatsPod:
    return FormatsPod(
        name="log-formats-1",
        uid="u",
        exit_code=exit_code,
        words=words,
        trouble=trouble,
        leaving=leaving,
    )


def says(formats: ReleaseFormats) -> FormatsPod:
    return pod(release_formats.render(formats))


def other(
    disk: Mapping[str, FormatRange] | None = None,
    metadata: Mapping[str, FormatRange] | None = None,
    wire: FormatRange | None = None,
) -> ReleaseFormats:
    """A release that differs from ours in these formats."""
    return dataclasses.replace(
        OURS,
        version="0.2.0",
        disk={**OURS.disk, **(disk or {})},
        metadata={**OURS.metadata, **(metadata or {})},
        wire=OURS.wire if wire is None else {release_formats.WIRE: wire},
    )


def test_an_image_that_was_not_asked_is_to_be_asked() -> None:
    assert vetting.vet(IMAGE, None, {A: OURS}) == ImageUnasked()
    assert isinstance(vetting.vet(IMAGE, pod(leaving=True), {A: OURS}), ImageAsked)


def test_an_answer_that_is_not_there_is_waited_for() -> None:
    found = vetting.vet(IMAGE, pod(exit_code=None), {A: OURS})
    assert isinstance(found, ImageAsked)
    assert "log-formats-1" in found.why


def test_a_pull_that_fails_is_told_in_kubernetes_words() -> None:
    trouble = PodTrouble(
        kind=TroubleKind.IMAGE_PULL,
        words="container formats: ImagePullBackOff: not found",
        last_words=None,
        since=None,
    )
    found = vetting.vet(IMAGE, pod(exit_code=None, trouble=trouble), {A: OURS})
    assert isinstance(found, ImageAsked)
    assert "ImagePullBackOff: not found" in found.why


@pytest.mark.parametrize("exit_code", [1, 2, 137, -1])
def test_a_pod_that_ends_without_an_answer_is_no_answer(exit_code: int) -> None:
    found = vetting.vet(IMAGE, pod("sh: zonekeeper: not\nfound", exit_code), {A: OURS})
    assert isinstance(found, NoImageAnswer)
    assert found.again == (exit_code == NEVER_RAN)
    assert f"exit code {exit_code}" in found.why
    assert "sh: zonekeeper: not found" in found.why


def test_words_that_are_no_formats_are_no_answer() -> None:
    assert isinstance(vetting.vet(IMAGE, pod("hello"), {A: OURS}), NoImageAnswer)


def test_the_same_formats_are_vetted() -> None:
    assert vetting.vet(IMAGE, says(OURS), {A: OURS, B: None}) == Vetted(OURS)


def test_a_newer_release_that_reads_what_is_there_is_vetted() -> None:
    newer = other({"checkpoint": FormatRange(3, 4)}, wire=FormatRange(1, 2))
    assert vetting.vet(IMAGE, says(newer), {A: OURS}) == Vetted(newer)


def test_a_newer_release_with_a_new_format_is_vetted() -> None:
    newer = other({"later": FormatRange(1, 1)})
    assert vetting.vet(IMAGE, says(newer), {A: OURS}) == Vetted(newer)


@pytest.mark.parametrize("place", ["disk", "metadata"])
@pytest.mark.parametrize(
    ("wrote", "reads", "word"),
    [
        (FormatRange(1, 4), FormatRange(1, 3), "1..3"),
        (FormatRange(1, 1), FormatRange(2, 3), "2..3"),
        (FormatRange(1, 1), None, "0"),
    ],
)
def test_an_image_that_does_not_read_what_is_there_is_refused(
    place: str, wrote: FormatRange, reads: FormatRange | None, word: str
) -> None:
    def having(held: FormatRange) -> ReleaseFormats:
        formats = {"later": held}
        return other(disk=formats) if place == "disk" else other(metadata=formats)

    there, image = having(wrote), OURS if reads is None else having(reads)
    found = vetting.vet(IMAGE, says(image), {A: OURS, B: there})
    assert isinstance(found, RefusedImage)
    assert f"bookie {B} (zonekeeper 0.2.0) writes {place} format later" in found.why
    assert f"in version {wrote.highest}, and the image reads {word}" in found.why


@pytest.mark.parametrize(
    ("image", "there"),
    [(FormatRange(2, 3), FormatRange(1, 1)), (FormatRange(1, 1), FormatRange(2, 3))],
)
def test_an_image_without_a_common_wire_version_is_refused(
    image: FormatRange, there: FormatRange
) -> None:
    found = vetting.vet(IMAGE, says(other(wire=image)), {A: other(wire=there)})
    assert isinstance(found, RefusedImage)
    assert f"speak wire version {there}, and the image speaks {image}" in found.why


OLD = pod("Usage: zonekeeper bookie\nError: No such command 'formats'.", 2)


def test_an_image_that_does_not_know_the_question_counts_as_the_releases_before() -> None:
    assert vetting.vet(IMAGE, OLD, {A: OURS}) == Vetted(vetting.BEFORE)
    newer = other({"checkpoint": FormatRange(3, 4)})
    found = vetting.vet(IMAGE, OLD, {A: newer})
    assert isinstance(found, RefusedImage)
    assert "zonekeeper 0.1.0 or older" in found.why


def test_bookies_of_unknown_formats_count_as_the_releases_before() -> None:
    later = other({"checkpoint": FormatRange(4, 4)})
    assert isinstance(vetting.vet(IMAGE, says(later), {A: None}), RefusedImage)
    assert vetting.vet(IMAGE, says(OURS), {A: None}) == Vetted(OURS)


def test_without_bookies_every_image_that_answers_is_vetted() -> None:
    assert isinstance(vetting.vet(IMAGE, says(other(wire=FormatRange(9, 9))), {}), Vetted)


# in a cluster


async def test_an_image_is_asked_before_any_bookie_gets_it_and_its_pod_goes_after() -> None:
    world = World()
    await world.settle()
    asked: list[tuple[str, set[str]]] = []

    async def look() -> None:
        pods = await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log")
        runs = await images(world)
        asked.extend((pod["metadata"]["name"], runs) for pod in pods)

    await world.change(image=NEW)
    await world.settle(after_turn=look)

    assert {name for name, _ in asked} == {formats_pod.name_of("log", NEW)}
    assert asked[0][1] == {OLD_IMAGE}, "no bookie has the image yet"
    assert await images(world) == {NEW}
    assert await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log") == []


async def test_an_image_that_is_too_old_gets_no_bookie() -> None:
    world = World(image=NEW)
    world.formats[NEW] = other({"checkpoint": FormatRange(3, 4)})
    await world.settle()

    await world.change(image="zonekeeper:earlier")  # the API compares no such tags
    await world.settle()

    assert await images(world) == {NEW}
    status, reason = (await world.conditions())["Rolling"]
    assert (status, reason) == ("False", "imageNotVetted")
    said = await message(world)
    assert "bookie log-a-0 (zonekeeper 0.2.0) writes disk format checkpoint in version 4" in said
    assert "the image reads 1..3" in said

    await world.change(image=NEW)
    await world.settle()
    assert (await world.conditions())["Rolling"][0] == "True"
    assert await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log") == []


async def test_an_image_that_no_registry_has_is_told_and_takes_no_bookie_down() -> None:
    world = World()
    await world.settle()
    world.missing.add(NEW)

    await world.change(image=NEW)
    await world.settle()

    assert await images(world) == {OLD_IMAGE}
    assert "ImagePullBackOff" in await message(world)
    assert (await world.conditions())["Ready"][0] == "True"


async def test_an_operator_that_was_started_anew_asks_the_image_no_second_time() -> None:
    world = World()
    await world.settle()
    made: list[str] = []

    async def look() -> None:
        world.reconciler = world.new_operator()
        pods = await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log")
        made.extend(pod["metadata"]["uid"] for pod in pods)

    await world.change(image=NEW)
    for _ in range(12):
        await world.turn()
        await world.controllers()
        await look()
    assert len(set(made)) == 1


async def test_a_restart_asks_no_image() -> None:
    world = World()
    await world.settle()
    asked: list[Json] = []

    async def look() -> None:
        asked.extend(await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log"))

    item = await world.get()
    item["metadata"].setdefault("annotations", {})[RESTART] = "once"
    world.kubernetes.put(BOOKIE_CLUSTERS, item)
    await world.settle(after_turn=look)
    assert asked == []


async def in_the_midst(world: World) -> None:
    """Let a roll to ``NEW`` be where a bookie of zone a runs it, and another one does not."""
    await world.settle()
    await world.change(image=NEW)
    while await images(world) != {OLD_IMAGE, NEW}:
        await world.turn()
        await world.controllers()


async def test_a_third_image_in_the_midst_of_a_roll_reaches_no_template_before_it_is_vetted() -> (
    None
):
    world = World()
    world.missing.add(THIRD)
    await in_the_midst(world)
    seen: set[str] = set()

    async def look() -> None:
        seen.update((await templates(world)).values())

    await world.change(image=THIRD)
    await world.settle(after_turn=look)

    assert seen == {OLD_IMAGE, NEW}
    assert (await world.conditions())["Rolling"][1] == "imageNotVetted"
    # A pod that Kubernetes makes anew meanwhile gets what stands.
    world.kubernetes.mark_deleted(PODS, SPACE, "log-a-0")
    await world.settle(after_turn=look)
    assert seen == {OLD_IMAGE, NEW}
    assert await images(world) <= {OLD_IMAGE, NEW}

    world.missing.clear()
    (stuck,) = await world.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}=log")
    world.kubernetes.mark_deleted(PODS, SPACE, stuck["metadata"]["name"])
    await world.settle()
    assert await images(world) == {THIRD}


async def test_in_the_midst_of_a_roll_what_a_pod_still_runs_is_put_back_without_a_question() -> (
    None
):
    world = World()
    await in_the_midst(world)
    world.missing.add(OLD_IMAGE)  # to ask it would not end

    await world.change(image=OLD_IMAGE)
    await world.settle()

    assert set((await templates(world)).values()) == await images(world) == {OLD_IMAGE}


async def test_a_zone_without_pods_gets_no_image_before_it_is_vetted_either() -> None:
    world = World()
    world.missing.add(NEW)
    await world.settle()
    for name in ("log-b-0", "log-b-1"):
        world.kubernetes.mark_deleted(PODS, SPACE, name)

    await world.change(image=NEW)
    for _ in range(5):
        await world.turn()  # no controller makes the pods anew

    assert set((await templates(world)).values()) == {OLD_IMAGE}
    assert (await world.conditions())["Rolling"][1] == "imageNotVetted"


async def images(world: World) -> set[str]:
    """Give the images that bookies run."""
    pods = await world.kubernetes.list(PODS, SPACE, labels="zonekeeper.io/cluster=log")
    return {observed.pod(pod).image for pod in pods}


async def message(world: World) -> str:
    """Give what the resource says of its roll."""
    told = (await world.get())["status"]["conditions"]
    return next(str(one["message"]) for one in told if one["type"] == "Rolling")


def test_the_pod_is_no_bookie_and_has_no_token_and_no_volume() -> None:
    item = resource()
    item["metadata"]["uid"] = "u"
    wanted = desired.read(item)
    assert isinstance(wanted, Desired)
    body = formats_pod.made(wanted, wanted.zones[0], item)
    spec = body["spec"]
    assert CLUSTER_LABEL not in body["metadata"]["labels"]
    assert spec["automountServiceAccountToken"] is False
    assert "volumes" not in spec
    assert spec["restartPolicy"] == "Never"
    assert spec["nodeSelector"] == {"topology.kubernetes.io/zone": "a"}
    (container,) = spec["containers"]
    assert container["image"] == wanted.image
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["terminationMessagePath"] == container["env"][0]["value"]


@pytest.mark.parametrize(
    ("status", "exit_code", "words"),
    [
        ({}, None, ""),
        ({"phase": "Pending"}, None, ""),
        ({"phase": "Failed", "message": "the node is lost"}, NEVER_RAN, "the node is lost"),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 0, "message": "{}"}}}]},
            0,
            "{}",
        ),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
            3,
            "",
        ),
    ],
)
def test_a_pod_is_read(status: Json, exit_code: int | None, words: str) -> None:
    read = formats_pod.read({"metadata": {"name": "n", "uid": "u"}, "status": status})
    assert (read.exit_code, read.words) == (exit_code, words)
