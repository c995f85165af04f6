"""The policy record: every process reads and watches it; its writers check who owns it.

No other place holds rules of the cluster's owner. The record is written by compare-and-set on its
own ``version``, which counts the changes that people made. Its ``owner`` is the shell, or the
operator for a custom resource. ``zonekeeper policy`` and the operator's stage ``keeping.policy``
refuse to write another's record; this module does not check it.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final

from zonekeeper.metadata.cluster import record_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats.malformed import (
    Flaw,
    MalformedError,
    UnreadableError,
    UnsupportedError,
)
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy


class PolicyChangedError(Refusal):
    """The policy was changed since it was read: read it again, and decide again."""

    retryable = True


def _parse(data: Mapping[str, Plain]) -> Policy:
    try:
        return rules_data.from_record(data)
    except rules_data.NewerFormatError as error:
        raise UnsupportedError(str(error)) from error
    except ValueError as error:
        raise MalformedError(Flaw.OUT_OF_RANGE, f"the policy record: {error}") from error


CODEC: Final = Codec(render=rules_data.record, parse=_parse)


async def read(cluster: Cluster) -> Policy | None:
    """Read the policy; None if none was ever set."""
    return await record_store.read(cluster, _path(cluster), CODEC)


async def write(cluster: Cluster, policy: Policy, *, replaces: int) -> Policy:
    """Set the policy in place of version ``replaces`` (0: there was none); give the stored policy.

    Version and instance are set here. Fields that only a newer program knows stay as they are in
    the store. To repeat a write that was applied changes nothing. If the policy could not be read
    again, ``InvalidFieldsError`` is raised and nothing is stored.
    """

    def decide(standing: Policy | None) -> Policy:
        version = 0 if standing is None else standing.version
        wanted = replace(policy, version=replaces + 1, instance=cluster.instance)
        if standing is not None:
            wanted = replace(wanted, unknown=standing.unknown)
        if version != replaces and standing != wanted:
            raise PolicyChangedError(
                f"the policy of {cluster} is at version {version}, not {replaces}: it was "
                "changed meanwhile; read it again and decide again"
            )
        rules_data.from_record(rules_data.record(wanted))
        return wanted

    standing = await record_store.change(cluster, _path(cluster), CODEC, decide)
    assert standing is not None, "what was decided is there"
    return standing


def watch(
    cluster: Cluster,
) -> AbstractAsyncContextManager[AsyncIterator[Policy | UnreadableError | None]]:
    """Follow the policy. When an error comes instead, the last good policy stays in force."""
    return record_store.watch(cluster, _path(cluster), CODEC)


def _path(cluster: Cluster) -> str:
    return cluster.root.beside("policy")
