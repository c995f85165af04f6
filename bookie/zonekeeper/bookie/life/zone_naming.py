"""A bookie in a zone that the policy does not name says so, and stays ready.

It is registered and serves what it has, but no ledger comes to it. The policy is followed. So the
bookie is used as soon as the policy names its zone: no restart is needed.

It stays ready because it does its work for the ledgers that it has. Were it not ready, a change of
the policy would take all pods of a zone out of their service at once, and hold up each roll.

Unknown is not no: without a policy that can be read, nothing is said against the bookie. When a
policy was read once, it stays in force until another one is read.
"""

import asyncio
import logging
from typing import Final

from zonekeeper.bookie.life.life import Conditions
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.policy.rules import Policy

#: The name of the remark.
ZONE: Final = "zone"

_logger = logging.getLogger(__name__)


class ZoneNaming:
    """Keeps one remark of a bookie: the policy does not name its zone."""

    def __init__(self, cluster: Cluster, where: Location, conditions: Conditions) -> None:
        self._cluster = cluster
        self._where = where
        self._conditions = conditions
        #: Why the bookie gets no ledgers; None: the policy names its zone, or is not known.
        self.trouble: str | None = None
        #: Set when the policy was looked at for the first time.
        self.begun = asyncio.Event()

    async def follow(self) -> None:
        """Follow the policy until cancelled."""
        async with policy_store.watch(self._cluster) as policies:
            async for policy in policies:
                self._heard(policy)
                self.begun.set()

    def _heard(self, policy: Policy | UnreadableError | None) -> None:
        if not isinstance(policy, Policy):
            return
        rules, before = policy.placement, self.trouble
        is_unnamed = unnamed.is_unnamed(self._where, rules)
        self.trouble = unnamed.text(self._where.zone, rules) if is_unnamed else None
        self._conditions.remark(ZONE, self.trouble)
        if self.trouble != before:
            level = logging.INFO if self.trouble is None else logging.WARNING
            _logger.log(level, "%s", self.trouble or f"the policy names zone {self._where.zone}")
