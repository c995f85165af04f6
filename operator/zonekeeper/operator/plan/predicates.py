"""Predicates: every thing that a cluster can wait for has a name. Pure.

A predicate is a fixed word. The plan of a turn and the operator's log name it. While a cluster is
kept, one of its conditions has the predicate as its reason. ``zonekeeper runbook <predicate>`` says
what it means, what to look at and what to do. The text beside a predicate names bookies, fields and
addresses and changes with them, so code compares predicates only. The gates of the roll
(``operator.roll.gates``) are predicates, too.
"""

import enum
from dataclasses import dataclass

from zonekeeper.operator.roll.gates import RollGate


class Predicate(enum.StrEnum):
    """Each member has a runbook."""

    # while a cluster comes to be, and is kept up
    #: The resource must be corrected: nothing can be built from it.
    REFUSED = "Refused"
    #: The resource is legal, but would lose data or take an object that is not its own.
    BLOCKED = "Blocked"
    #: The metadata store does not answer.
    UNREACHABLE = "MetadataUnreachable"
    #: Something stands at the root that is not a cluster that can be read.
    UNUSABLE = "Unusable"
    #: The root that this cluster was built in is gone.
    ROOT_LOST = "RootLost"
    #: The root is another cluster's than the one that this resource was built as.
    OTHER_INSTANCE = "OtherInstance"
    #: The root has bookies that this resource does not run.
    IN_USE = "RootInUse"
    #: Another owner has set the policy of the root.
    OWNED_BY_ANOTHER = "OwnedByAnother"
    #: A person has stopped the operator's acts on this cluster.
    ACTS_PAUSED = "ActsPaused"
    #: A new zone is not in place, so no ledger is placed there.
    ZONE_NOT_NAMED = "ZoneNotNamed"
    #: A zone is away for a drill: nothing else is done meanwhile.
    DRILL = "Drill"
    #: An act of the last turn failed.
    FAILED = "Failed"
    #: Fewer bookies are ready than are asked for, and nothing says why.
    BOOKIES_NOT_READY = "BookiesNotReady"
    #: The image of a bookie is not pulled.
    IMAGE_PULL = "ImagePull"
    #: A bookie's pod fits on no node.
    UNSCHEDULABLE = "Unschedulable"
    #: The container of a bookie cannot be made.
    NOT_STARTED = "NotStarted"
    #: A bookie's process ends again and again.
    CRASH_LOOP = "CrashLoop"
    #: The zone watch says that the zone of bookies that are not ready is down.
    ZONE_DOWN = "ZoneDown"
    #: Pods run another template than the one that is asked for: the roll is under way.
    OLD_PODS = "OldPods"
    #: The roll has stopped by itself: a bookie that it made anew does not become well.
    HALTED = "Halted"
    #: Kubernetes has not looked at the newest template yet.
    NOT_OBSERVED = "NotObserved"
    #: A bookie that is not asked for any more is being emptied, stopped and forgotten.
    REMOVING = "Removing"
    #: The order about such a bookie waits for a gate or for a person.
    REMOVAL_STUCK = "RemovalStuck"
    #: The next bookie that is not asked for any more does not get its order yet.
    REMOVAL_WAITS = "RemovalWaits"
    #: An empty disk stands where the store knows a bookie.
    VOLUME_LOST = "VolumeLost"
    #: A bookie gets another volume, because a person asks for it.
    REPLACING = "Replacing"
    #: A person asks for another volume of a bookie, which does not get its order yet.
    REPLACE_WAITS = "ReplaceWaits"
    #: Volumes do not have the size that is asked for yet.
    VOLUMES_GROWING = "VolumesGrowing"
    #: A volume is too full, and does not grow by itself yet.
    GROWTH_WAITS = "GrowthWaits"
    #: Nodes of a zone are cordoned, and the zone is not opened to a drain yet.
    DRAIN_WAITS = "DrainWaits"
    #: A budget of somebody else chooses bookies, so that nobody can evict them.
    FOREIGN_BUDGET = "ForeignBudget"
    #: A bookie stands elsewhere than its zone or its cookie says.
    MISPLACED = "Misplaced"
    #: A bookie has no cookie yet that says where it stands.
    NO_COOKIE = "NoCookie"
    #: The operator may not read nodes, so it cannot check where bookies stand.
    NODES_NOT_PERMITTED = "NodesNotPermitted"

    #: The operator may not read Secrets, so it issues no certificates.
    SECRETS_NOT_PERMITTED = "SecretsNotPermitted"
    #: The resource asks for certificates of cert-manager, which is not there.
    NO_CERT_MANAGER = "NoCertManager"

    #: No evaluation of the zone watch is seen, so no lost copy is made again.
    NOT_WATCHED = "NotWatched"
    #: The losses of a zone, or of all, are not repaired now.
    HELD = "Held"
    #: Fewer autorecovery processes are ready than are asked for.
    AUTORECOVERY_NOT_READY = "AutorecoveryNotReady"

    # while a deleted cluster is removed (UNREACHABLE and ACTS_PAUSED, too)
    #: Claims of volumes do not carry the label of their cluster yet.
    VOLUMES_UNMARKED = "VolumesUnmarked"
    #: StatefulSets are there still.
    STATEFUL_SETS_LEFT = "StatefulSetsLeft"
    #: Deployments of autorecovery processes, or their pods, are there still.
    DEPLOYMENTS_LEFT = "DeploymentsLeft"
    #: Pods are there still.
    PODS_LEFT = "PodsLeft"
    #: Claims of this cluster's volumes are there still.
    VOLUMES_LEFT = "VolumesLeft"
    #: Bookies are registered in the root still.
    STILL_REGISTERED = "StillRegistered"
    #: The root is there still.
    ROOT_LEFT = "RootLeft"

    @property
    def runbook(self) -> str:
        """The command that prints what to do."""
        return f"zonekeeper runbook {self}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stage cannot go on before something else has happened."""

    #: A gate of the roll is a predicate, too.
    predicate: Predicate | RollGate
    why: str
