"""Answers the questions of the API server about edits of resources, on every replica.

It only reads, so it needs no right to act: a process that stands by answers, too. What is known of
a built cluster is read anew for each question, within a limit. An edit that cannot be judged in
time is allowed, with a warning: the operator judges it again in any case.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from zonekeeper.operator.admission import reviews, verdicts
from zonekeeper.operator.admission.reviews import AdmissionAnswer, Review
from zonekeeper.operator.admission.verdicts import LegalEdit
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Kubernetes
from zonekeeper.operator.roots.roots import Opener
from zonekeeper.operator.run import preflighting
from zonekeeper.placement.base.troubles import Trouble

#: The chart lets the API server wait for 10 s.
LOOK_SECONDS_MAX: Final = 5.0
#: Of one resource one look at a time: a store that is gone uses up no looks at other clusters.
LOOKS_AT_ONCE_MAX: Final = 16

_logger = logging.getLogger(__name__)


class Reviewer:
    """Answers admission reviews."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        opener: Opener,
        *,
        own_image: str | None = None,
        namespaces: Sequence[str] = (),
    ) -> None:
        """Judge by what is in the namespaces that the operator serves; none: in all."""
        self._kubernetes = kubernetes
        self._opener = opener
        self._own_image = own_image
        self._namespaces = namespaces or ("",)
        self._free = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)
        #: By namespace and name, for as long as somebody looks or waits.
        self._looking = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    async def answer(self, body: bytes) -> bytes:
        """Answer one question; raises ``BadReviewError``."""
        review = reviews.parse(body)
        found = await self._judge(review)
        if found.refusal is not None and review.ends_definition:
            _logger.info("refused: %s", found.refusal)
        if found.refusal is not None and review.resource is not None:
            meta = review.resource["metadata"]
            _logger.info("refused: %s/%s: %s", meta["namespace"], meta["name"], found.refusal)
        return reviews.render(review, found)

    async def _judge(self, review: Review) -> AdmissionAnswer:
        if review.ends_definition:
            return await self._judge_end()
        found = verdicts.by_fields(review, self._own_image)
        if isinstance(found, AdmissionAnswer):
            return found
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX), self._turn_of(found), self._free:
                return await self._look(found)
        except TimeoutError:
            return verdicts.not_looked_at(found, "that took too long")
        except Trouble as error:
            return verdicts.not_looked_at(found, str(error))

    def _turn_of(self, edit: LegalEdit) -> asyncio.Lock:
        meta = edit.resource["metadata"]
        return self._looking.setdefault((meta["namespace"], meta["name"]), asyncio.Lock())

    async def _judge_end(self) -> AdmissionAnswer:
        """Judge the deletion of the definition; without an answer it is allowed, with a warning."""
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX), self._free:
                found = [
                    one
                    for space in self._namespaces
                    for one in await self._kubernetes.list(BOOKIE_CLUSTERS, space)
                ]
        except (TimeoutError, Trouble) as error:
            why = str(error) or "that took too long"
            return AdmissionAnswer(warnings=(f"clusters that may be there were not seen: {why}",))
        return verdicts.end_of_definition(found)

    async def _look(self, edit: LegalEdit) -> AdmissionAnswer:
        meta = edit.resource["metadata"]
        live = await self._kubernetes.get(BOOKIE_CLUSTERS, meta["namespace"], meta["name"])
        resource = verdicts.as_edited(live, edit)
        if resource is None:
            return AdmissionAnswer(warnings=edit.wanted.warnings)
        seen = await preflighting.observed(self._kubernetes, self._opener, resource, edit.wanted)
        return verdicts.by_what_is_there(edit, seen)
