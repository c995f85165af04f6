"""The operator's process: kopf watches, and an event wakes the task of the resource it is about.

The operator uses kopf for credentials, for liveness, for signals, and for watch streams, which end,
freeze and come back. It does not use kopf's handlers of changes. Such a handler is called once for
a difference in an object, and a change of the metadata store or of a node makes no difference there
(see ``planning``). So kopf stores nothing in any object. It also has no finalizer of its own, which
would make a deletion wait for an operator that is gone.

One operator runs at a time: the Deployment has one replica, and starts another one only when the
first has ended. Two operators would do no harm, because every write is bound to a version or a uid,
but they would slow each other down.
"""

import asyncio
import datetime
from typing import Final

import kopf

from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLUSTER_LABEL,
    OWNED,
    Kubernetes,
    ObjectKind,
)
from zonekeeper.operator.run.reconciling import Key, Reconcilers
from zonekeeper.operator.run.settings import OperatorSettings
from zonekeeper.wire.running import running

#: Shorter than the grace period of the operator's pod.
STOP_LIMIT_S: Final = 20.0
CONNECT_SECONDS_MAX: Final = 10
REQUEST_SECONDS_MAX: Final = 60
#: A watch is renewed after this time, also if it is silent.
WATCH_SECONDS_MAX: Final = 300


async def run(kubernetes: Kubernetes, settings: OperatorSettings) -> None:
    """Serve until SIGTERM or SIGINT; raises ``StoppedError``."""
    await running.run(lambda _: _live(kubernetes, settings), stop_limit_s=STOP_LIMIT_S)


async def _live(kubernetes: Kubernetes, settings: OperatorSettings) -> None:
    for namespace in settings.namespaces or ("",):
        # If the definition or our rights are missing, the process ends here and says so.
        await kubernetes.list(BOOKIE_CLUSTERS, namespace)
    async with asyncio.TaskGroup() as group:
        reconcilers = Reconcilers(kubernetes, open_store, group, _now)
        try:
            await kopf.operator(
                registry=_handlers(reconcilers),
                settings=_kopf_settings(),
                standalone=True,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                liveness_endpoint=settings.liveness,
            )
        finally:
            reconcilers.stop()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)  # noqa: TID251 the clock that others are given


def _kopf_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # kopf handles the signals while it runs, so it has to know the limit of the way down, too.
    settings.process.ultimate_exiting_timeout = STOP_LIMIT_S
    settings.posting.enabled = False  # our events are made where the status is
    settings.scanning.disabled = True  # the kinds are known and checked at the start
    settings.networking.connect_timeout = CONNECT_SECONDS_MAX
    settings.networking.request_timeout = REQUEST_SECONDS_MAX
    settings.watching.server_timeout = WATCH_SECONDS_MAX
    for kind in OWNED:
        settings.watching.label_selectors[_selector(kind)] = CLUSTER_LABEL
    return settings


def _selector(kind: ObjectKind) -> str:
    return f"{kind.group}/{kind.version}/{kind.plural}" if kind.group else f"v1/{kind.plural}"


def _handlers(reconcilers: Reconcilers) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(
        logger: kopf.Logger, settings: kopf.OperatorSettings, **_: object
    ) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(logger=logger, settings=settings)

    @kopf.on.cleanup(registry=registry)
    async def leave(**_: object) -> None:
        reconcilers.stop()

    @kopf.on.event(
        BOOKIE_CLUSTERS.group, BOOKIE_CLUSTERS.version, BOOKIE_CLUSTERS.plural, registry=registry
    )
    async def resource(namespace: str | None, name: str, **_: object) -> None:
        assert namespace is not None, "the resource is namespaced"
        reconcilers.wake(Key(namespace, name))

    for kind in OWNED:

        @kopf.on.event(
            kind.group,
            kind.version,
            kind.plural,
            labels={CLUSTER_LABEL: kopf.PRESENT},
            registry=registry,
        )
        async def owned(namespace: str | None, labels: kopf.Labels, **_: object) -> None:
            assert namespace is not None, "what we make is namespaced"
            reconcilers.wake(Key(namespace, labels[CLUSTER_LABEL]))

    return registry
