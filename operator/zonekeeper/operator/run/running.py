"""The operator's process: kopf watches, and an event wakes the task of the resource it is about.

The operator uses kopf for credentials, for signals, and for watch streams, which end, freeze and
come back. It does not use kopf's handlers of changes. Such a handler is called once for a
difference in an object, and a change of the metadata store or of a node makes no difference there
(see ``planning``). So kopf stores nothing in any object. It also has no finalizer of its own, which
would make a deletion wait for an operator that is gone.

Up: HTTP port → our rights are there → the webhook, if it is on → the right to act (``lead``) →
kopf. One process of all that serve a namespace acts, and the others stand by. A process that loses
the right ends, and its supervisor starts it again: it then stands by. Down, on SIGTERM or SIGINT:
turns end, and the right is given up.

The webhook is not kopf's own, because kopf runs only in the process that acts: the others would not
answer, and the API server asks any of them.
"""

import asyncio
import datetime
import http
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import kopf
from kopf._core.engines.peering import Identity

from zonekeeper.metadata.store import background
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.operator.admission import serving
from zonekeeper.operator.admission.certificates import ServingCertificate
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLUSTER_LABEL,
    OWNED,
    POLICIES,
    Kubernetes,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.lead import lease_objects
from zonekeeper.operator.lead.keeping_lease import LeaseClocks
from zonekeeper.operator.lead.leading import ActingRight
from zonekeeper.operator.lead.lease_objects import LeasePlace
from zonekeeper.operator.lead.leased_api import LeasedKubernetes
from zonekeeper.operator.run import reviewing, standing_by
from zonekeeper.operator.run.operator_pages import OperatorPages
from zonekeeper.operator.run.reconciling import Clocks, Key, Reconcilers, TurnSurroundings
from zonekeeper.operator.run.reviewing import Reviewer
from zonekeeper.operator.run.settings import OperatorSettings
from zonekeeper.operator.run.turn_figures import TurnTally
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import looking, processes, running

#: Shorter than the grace period of the operator's pod.
STOP_LIMIT_S: Final = 20.0
CONNECT_SECONDS_MAX: Final = 10
REQUEST_SECONDS_MAX: Final = 60
#: A watch is renewed after this time, also if it is silent.
WATCH_SECONDS_MAX: Final = 300
#: An API server that gives no answer at the start is asked again after this time.
AGAIN_S: Final = 2.0

_logger = logging.getLogger(__name__)


async def run(kubernetes: Kubernetes, settings: OperatorSettings) -> None:
    """Serve until SIGTERM or SIGINT; raises ``StoppedError``."""
    await running.run(lambda _: _live(kubernetes, settings), stop_limit_s=STOP_LIMIT_S)


async def _live(kubernetes: Kubernetes, settings: OperatorSettings) -> None:
    clocks = _clocks()
    tally = TurnTally(clocks.monotonic_ms)
    pages = OperatorPages(tally)
    async with AsyncExitStack() as stack:
        with processes.explained(f"--http: cannot listen on {settings.http}"):
            await stack.enter_async_context(looking.served(pages.table(), settings.http))
        await _permitted(kubernetes, settings.namespaces)
        watched = await watched_kinds(kubernetes, settings.namespaces)
        if settings.webhook is not None:
            await stack.enter_async_context(_webhook(kubernetes, settings, settings.webhook))
        right = _right(kubernetes, settings)
        pages.right = right

        async def stands_by(place: LeasePlace, holder: str) -> None:
            await standing_by.tell(kubernetes, place, holder, right.me, clocks.wall)

        async with right.held(stands_by), asyncio.TaskGroup() as group:
            around = TurnSurroundings(
                kubernetes=LeasedKubernetes(kubernetes, right),
                opener=open_store,
                clocks=clocks,
                right=right,
                spawn=group.create_task,
                own_image=settings.image,
            )
            reconcilers = Reconcilers(around, group, tally=tally)
            try:
                await kopf.operator(
                    registry=_handlers(reconcilers, watched),
                    settings=_kopf_settings(),
                    standalone=True,
                    # Otherwise kopf asks the DNS for this machine's name, and the event loop stands
                    # still meanwhile: where no DNS answers, longer than the Lease lasts.
                    identity=Identity(right.me),
                    clusterwide=not settings.namespaces,
                    namespaces=settings.namespaces,
                )
            finally:
                reconcilers.stop()


@asynccontextmanager
async def _webhook(
    kubernetes: Kubernetes, settings: OperatorSettings, address: Address
) -> AsyncIterator[None]:
    """Answer admission reviews during the block."""
    certificate = ServingCertificate(settings.webhook_certificate)
    limits = Timeouts(request_ms=int(reviewing.LOOK_SECONDS_MAX * 1000))
    reviewer = Reviewer(
        kubernetes,
        lambda at: open_store(at, limits),
        own_image=settings.image,
        namespaces=settings.namespaces,
    )
    async with AsyncExitStack() as stack:
        with processes.explained(f"--webhook: cannot listen on {address}"):
            port = await stack.enter_async_context(
                serving.served(reviewer.answer, address, certificate.context)
            )
        await stack.enter_async_context(background.alongside(certificate.keep_fresh()))
        _logger.info("admission reviews are answered on port %d", port)
        yield


async def _permitted(kubernetes: Kubernetes, namespaces: tuple[str, ...]) -> None:
    """Return when the API server answers; without the definition or our rights the process ends."""
    for namespace in namespaces or ("",):
        while True:
            try:
                await kubernetes.list(BOOKIE_CLUSTERS, namespace)
                break
            except KubernetesError as error:
                # 429: it has just come to know the definition, and is not ready to serve it.
                is_busy = error.status == http.HTTPStatus.TOO_MANY_REQUESTS
                if 0 < error.status < http.HTTPStatus.INTERNAL_SERVER_ERROR and not is_busy:
                    raise
                _logger.warning("the API server is not there yet: %s", error)
                await asyncio.sleep(AGAIN_S)


async def watched_kinds(
    kubernetes: Kubernetes, namespaces: tuple[str, ...]
) -> tuple[ObjectKind, ...]:
    """Give the kinds whose events wake a turn.

    kopf ends if it may not watch a kind. The rights of an older release do not have
    NetworkPolicies; clusters without them go on as before.
    """
    try:
        for namespace in namespaces or ("",):
            await kubernetes.list(POLICIES, namespace, labels=f"{CLUSTER_LABEL}=any")
    except NotPermittedError as error:
        _logger.warning("no NetworkPolicies are made: give the role its new rights: %s", error)
        return tuple(kind for kind in OWNED if kind is not POLICIES)
    except KubernetesError as error:
        _logger.info("whether NetworkPolicies may be read is not known: %s", error)
    return OWNED


def _right(kubernetes: Kubernetes, settings: OperatorSettings) -> ActingRight:
    me = lease_objects.holder_name(settings.installation, settings.name, secrets.token_hex(4))
    clocks = LeaseClocks(elapsed_ms=_elapsed_ms, wall=_now)
    return ActingRight(kubernetes, settings.places, me, clocks)


def _elapsed_ms() -> int:
    """Give time that never goes back, and that goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _clocks() -> Clocks:
    loop = asyncio.get_running_loop()
    return Clocks(wall=_now, monotonic_ms=lambda: int(loop.time() * 1000))


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


def _handlers(reconcilers: Reconcilers, watched: tuple[ObjectKind, ...]) -> kopf.OperatorRegistry:
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

    for kind in watched:

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
