"""What keeps a pod from running is read from its status, in the words of Kubernetes."""

import pytest

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.sight import observed, pod_trouble
from zonekeeper.operator.sight.pod_trouble import PodTrouble, TroubleKind

SINCE, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"
UNREADY: Json = {"type": "Ready", "status": "False", "lastTransitionTime": SINCE}


def pod(*conditions: Json, container: Json | None = None, **more: object) -> Json:
    """Give a pod with these conditions, and a container in this state."""
    shown = [] if container is None else [{"name": "bookie", "restartCount": 0, **container}]
    return {
        "metadata": {"name": "log-a-0", **more},
        "status": {"conditions": list(conditions), "containerStatuses": shown},
    }


def waiting(reason: str, message: str = "", **more: object) -> Json:
    return {"state": {"waiting": {"reason": reason, "message": message}}, **more}


def ended(code: int = 1, *, began: str = EARLIER, end: str = EARLIER, said: str = "") -> Json:
    how = {"exitCode": code, "reason": "Error", "startedAt": began, "finishedAt": end}
    return {"terminated": how | ({"message": said} if said else {})}


def test_a_pod_that_fits_nowhere_has_the_schedulers_words() -> None:
    words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": words,
        "lastTransitionTime": SINCE,
    }

    assert pod_trouble.of_pod(pod(scheduled)) == PodTrouble(
        kind=TroubleKind.UNSCHEDULABLE, words=words, last_words=None, since=SINCE
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ErrImagePull", TroubleKind.IMAGE_PULL),
        ("ImagePullBackOff", TroubleKind.IMAGE_PULL),
        ("InvalidImageName", TroubleKind.IMAGE_PULL),
        ("ErrImageNeverPull", TroubleKind.IMAGE_PULL),
        ("CreateContainerConfigError", TroubleKind.NOT_STARTED),
        ("CrashLoopBackOff", TroubleKind.CRASH_LOOP),
    ],
)
def test_a_container_that_waits_has_the_kubelets_words(reason: str, kind: TroubleKind) -> None:
    item = pod(UNREADY, container=waiting(reason, "no such\nimage"))

    assert pod_trouble.of_pod(item) == PodTrouble(
        kind=kind, words=f"container bookie: {reason}: no such image", last_words=None, since=SINCE
    )


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_pod_that_starts_has_no_trouble(reason: str) -> None:
    assert pod_trouble.of_pod(pod(UNREADY, container=waiting(reason))) is None
    assert pod_trouble.of_pod(pod()) is None
    assert pod_trouble.of_pod({"metadata": {"name": "log-a-0"}}) is None


def test_a_crash_loop_has_the_last_words_of_the_container() -> None:
    container = waiting("CrashLoopBackOff", lastState=ended(said="the disk is\nof another root"))

    found = pod_trouble.of_pod(pod(UNREADY, container=container))

    assert found is not None
    assert found.last_words == "the disk is of another root"
    assert found.told.endswith("; its last words: the disk is of another root")


def test_without_last_words_it_is_said_how_the_process_ended() -> None:
    found = pod_trouble.of_pod(
        pod(UNREADY, container=waiting("CrashLoopBackOff", lastState=ended(137)))
    )

    assert found is not None
    assert found.last_words == "Error, exit code 137"


def test_of_long_words_the_end_is_kept_of_a_containers_and_the_beginning_of_kubernetes() -> None:
    said = "first " + "x" * 1_000 + " last"
    container = waiting("CrashLoopBackOff", said, lastState=ended(said=said))

    found = pod_trouble.of_pod(pod(UNREADY, container=container))

    assert found is not None
    assert found.last_words is not None
    assert found.last_words.endswith(" last")
    assert len(found.last_words) == len(found.words) == pod_trouble.WORDS_MAX
    assert "first" in found.words


@pytest.mark.parametrize(
    ("container", "is_loop"),
    [
        ({"state": ended(), "restartCount": 1}, True),
        ({"state": ended(), "restartCount": 0}, False),
        ({"state": ended(0), "restartCount": 5}, False),
        ({"state": {"running": {}}, "restartCount": 3, "lastState": ended()}, True),
        ({"state": {"running": {}}, "restartCount": 2, "lastState": ended()}, False),
        ({"state": {"running": {}}, "restartCount": 3, "lastState": ended(end=SINCE)}, False),
        ({"state": {"running": {}}, "restartCount": 3, "lastState": ended(0)}, False),
        ({"state": {"running": {}}, "restartCount": 3, "lastState": {}}, False),
    ],
)
def test_between_two_ends_a_process_stays_in_its_crash_loop(
    container: Json, *, is_loop: bool
) -> None:
    found = pod_trouble.of_pod(pod(UNREADY, container=container))

    assert (found is not None) is is_loop
    if found is not None:
        assert found.kind is TroubleKind.CRASH_LOOP
        assert found.last_words == "Error, exit code 1"


def test_a_ready_pod_has_no_trouble_and_a_leaving_one_has_none_either() -> None:
    ready = UNREADY | {"status": "True"}
    container = waiting("CrashLoopBackOff")

    assert pod_trouble.of_pod(pod(ready, container=container)) is None
    assert pod_trouble.of_pod(pod(UNREADY, container=container, deletionTimestamp=SINCE)) is None


def test_of_several_containers_that_one_is_told_which_comes_first_in_a_pods_life() -> None:
    item = pod(UNREADY, container=waiting("CrashLoopBackOff"))
    item["status"]["initContainerStatuses"] = [{"name": "first", **waiting("ErrImagePull")}]

    found = pod_trouble.of_pod(item)

    assert found is not None
    assert found.kind is TroubleKind.IMAGE_PULL


def test_the_look_at_a_pod_has_its_trouble() -> None:
    item = pod(UNREADY, container=waiting("ErrImagePull"))

    found = observed.pod(item).trouble

    assert found is not None
    assert found.kind is TroubleKind.IMAGE_PULL
