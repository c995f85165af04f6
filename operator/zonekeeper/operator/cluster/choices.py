"""The fields of ``spec`` that choose one of several words. Pure."""

import enum


class OnDelete(enum.StrEnum):
    """Do volumes and metadata stay when the resource is deleted?"""

    RETAIN = "Retain"
    DELETE = "Delete"


class OnScaleDown(enum.StrEnum):
    """Does the volume of a bookie that was removed stay?"""

    RETAIN = "Retain"
    DELETE = "Delete"


class LostVolume(enum.StrEnum):
    """What is done about a bookie whose volume is lost?"""

    #: It is told, with the ways that there are.
    TELL = "Tell"
    #: Its copies are made elsewhere, and a new bookie takes its place.
    RECOVER = "Recover"
    #: It gets the empty disk, and starts in limbo until its copies are back.
    REFILL = "Refill"


class PodUser(enum.StrEnum):
    """As which user do the processes in the pods run?"""

    #: As one that is always the same.
    FIXED = "Fixed"
    #: The platform chooses one for each namespace, as OpenShift does, and refuses another.
    PLATFORM = "Platform"
