"""Which template of pods a StatefulSet or a Deployment shall have now. Pure.

A pod that Kubernetes makes anew gets the template that stands. So a zone keeps its old template
until the roll reaches it, and so do the Deployments until all bookies are rolled. The rest of an
object is changed apart from its template. The old template is read from the object itself: an
operator that has just started knows it, too.

- An object that is missing is made with the template that is asked for.
- In a zone where some pods do not run what their StatefulSet says, the roll is in its midst. Such a
  zone gets the template that is asked for at once, if its image was vetted or is put back: nothing
  is made from one that is asked for no longer.
- A zone whose pods all run what their StatefulSet says keeps it until the roll reaches the zone.

An annotation names the template that was applied. An older operator wrote none; then the fields are
compared. A resource that no longer has the annotation for a restart asks for no restart.
"""

from collections.abc import Iterable

from zonekeeper.operator.cluster import drift, owned_objects
from zonekeeper.operator.cluster.owned_objects import TEMPLATE
from zonekeeper.operator.kubernetes.api import RESTART, Json
from zonekeeper.operator.sight.observed import Pod


def asked_for(made: Json, found: Json | None) -> Json:
    """Give what is asked for; a word of an earlier restart stays when no restart is asked for."""
    template = made["spec"]["template"]
    earlier = _annotations(found["spec"].get("template", {})).get(RESTART) if found else None
    if earlier is None or RESTART in _annotations(template):
        return made
    template = owned_objects.restarted(template, earlier)
    meta = made["metadata"]
    said = meta["annotations"] | {TEMPLATE: owned_objects.template_hash(template)}
    return {
        **made,
        "metadata": {**meta, "annotations": said},
        "spec": {**made["spec"], "template": template},
    }


def keeping(made: Json, found: Json) -> Json:
    """Give the object with the template that stands."""
    meta = made["metadata"]
    said = {name: text for name, text in meta["annotations"].items() if name != TEMPLATE}
    if (known := _annotations(found).get(TEMPLATE)) is not None:
        said |= {TEMPLATE: known}
    return {
        **made,
        "metadata": {**meta, "annotations": said},
        "spec": {**made["spec"], "template": found["spec"]["template"]},
    }


def stands(made: Json, found: Json) -> bool:
    """Was this very template applied last? What others changed in it since does not matter."""
    known = _annotations(found).get(TEMPLATE)
    if known is None:
        return drift.holds(made["spec"]["template"], found["spec"]["template"])
    return bool(known == _annotations(made)[TEMPLATE])


def is_looked_at(found: Json) -> bool:
    """Has Kubernetes looked at the newest version of the object?"""
    seen = found.get("status", {}).get("observedGeneration", 0)
    return int(seen) >= int(found["metadata"]["generation"])


def revision(found: Json) -> str | None:
    """Give the revision of the template that stands; None: it is not known yet."""
    known = found.get("status", {}).get("updateRevision") if is_looked_at(found) else None
    return None if known is None else str(known)


def is_in_midst(found: Json, pods: Iterable[Pod]) -> bool:
    """Do some pods of a zone run another template than the one that stands, or are there none?"""
    known, present = revision(found), list(pods)
    if known is None:
        return False
    return not present or any(pod.revision != known for pod in present)


def puts_back(made: Json, found: Json, pods: Iterable[Pod]) -> bool:
    """Has the template that is asked for the image that stands, or that a pod still runs?"""
    image = owned_objects.image_of(made["spec"]["template"]["spec"])
    standing = owned_objects.image_of(found["spec"]["template"]["spec"])
    return image == standing or any(pod.image == image for pod in pods)


def _annotations(item: Json) -> Json:
    found: Json = item.get("metadata", {}).get("annotations") or {}
    return found
