"""A person's order is written on the resource, and followed until the operator has answered it.

The order is written by compare-and-set, and only if no other one waits for its answer. If the
answer of the API server is lost, the resource is read again: an order that stands there with our
token was written.

An order that nobody has taken up at its deadline is taken off again, by compare-and-set on the
version that shows it not accepted. The operator writes that it accepts before it acts, over the
version that it has read. So an order that is taken off so was not carried out.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    Json,
    Kubernetes,
    KubernetesError,
    ObjectChangedError,
)
from zonekeeper.operator.people import answers, order_format
from zonekeeper.operator.people.answers import AnswerPhase, OrderAnswer
from zonekeeper.operator.people.order_format import ORDER, BadOrderError
from zonekeeper.operator.plugin import person_place
from zonekeeper.operator.roots.resource_orders import ResourceOrder
from zonekeeper.placement.base.troubles import Refusal, Trouble

ATTEMPTS_MAX: Final = 10


class OrderStandsError(Refusal):
    """Another order waits for its answer; nothing was written."""


class NotAnsweredError(Trouble):
    """The operator did not answer in time; the message says whether the order may be done."""

    retryable = True

    def __init__(self, message: str, *, maybe_applied: bool) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDesk:
    """Where orders are given, and how time passes there."""

    api: Kubernetes
    namespace: str
    name: str
    wall_ms: Callable[[], int]
    #: Returns before the resource is looked at again.
    pause: Callable[[], Awaitable[object]]

    async def resource(self) -> Json:
        """Read the resource."""
        return await person_place.resource(self.api, self.namespace, self.name)

    async def give(self, made: Callable[[Json], ResourceOrder]) -> OrderAnswer:
        """Write an order, made for the resource as it stands, and give the final answer."""
        order = made(await self.resource())
        await self._write(order)
        return await self._follow(order)

    async def _write(self, order: ResourceOrder) -> None:
        text = order_format.render(order)
        for _ in range(ATTEMPTS_MAX):
            found = await self.resource()
            standing = _annotation(found)
            if standing == text:
                return
            if (waiting := waits(found, self.wall_ms())) is not None:
                raise OrderStandsError(
                    f"another order waits for its answer ({waiting}): wait until it has one; "
                    "nothing was done"
                )
            try:
                await self.api.edit(
                    BOOKIE_CLUSTERS, found, {"metadata": {"annotations": {ORDER: text}}}
                )
            except ObjectChangedError:
                continue
            except KubernetesError as error:
                if not error.maybe_applied:
                    raise
                continue
            return
        raise NotAnsweredError(
            f"the resource changed, or did not answer, {ATTEMPTS_MAX} times in a row: try again",
            maybe_applied=True,
        )

    async def _follow(self, order: ResourceOrder) -> OrderAnswer:
        """Wait for the answer until the deadline, and for as long again once it is accepted."""
        while True:
            found = await self.resource()
            answer = answers.read(found.get("status") or {})
            ours = answer if answer is not None and answer.token == order.token else None
            if ours is not None and ours.phase.is_final:
                await self._take_off(found, order)
                return ours
            late_ms = self.wall_ms() - order.until_ms
            if ours is None and late_ms >= 0 and await self._take_off(found, order):
                raise NotAnsweredError(
                    "no operator has taken the order up, so it was taken off again; nothing was "
                    "done: is an operator acting (`zonekeeper operator check`)?",
                    maybe_applied=False,
                )
            if late_ms >= LATE_MS_MAX:
                said = "" if ours is None else f" It said last: {ours.message}"
                raise NotAnsweredError(
                    f"the order was not answered until its deadline; it may have been done: look "
                    f"with `kubectl zonekeeper status {self.name}`.{said}",
                    maybe_applied=True,
                )
            await self.pause()

    async def _take_off(self, found: Json, order: ResourceOrder) -> bool:
        """Take our order off the version that was seen; False: that did not work."""
        standing = _annotation(found)
        if standing is None or order_format.token_of(standing) != order.token:
            return False
        try:
            await self.api.edit(
                BOOKIE_CLUSTERS, found, {"metadata": {"annotations": {ORDER: None}}}
            )
        except KubernetesError:
            return False
        return True


#: After its deadline the operator says what has become of an order.
LATE_MS_MAX: Final = 30_000


def waits(resource: Json, now_ms: int) -> str | None:
    """Name the order that waits for its answer; None: there is none, or its time is over."""
    text = _annotation(resource)
    if text is None:
        return None
    answer = answers.read(resource.get("status") or {})
    is_ours = answer is not None and answer.token == order_format.token_of(text)
    if answer is not None and is_ours and answer.phase.is_final:
        return None
    try:
        order = order_format.parse(text)
    except BadOrderError:
        return None
    if order.uid != resource["metadata"]["uid"] or order.until_ms <= now_ms:
        return None
    return f"{order.asked}: {order.about}, by {order.person}"


def is_done(answer: OrderAnswer) -> bool:
    """Was the order carried out?"""
    return answer.phase is AnswerPhase.DONE


def _annotation(resource: Json) -> str | None:
    found = (resource["metadata"].get("annotations") or {}).get(ORDER)
    return None if found is None else str(found)
