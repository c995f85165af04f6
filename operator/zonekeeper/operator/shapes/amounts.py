"""Amounts of processor, memory and other resources: limits and requests of a container. Pure."""

from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import names, quantities
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.fields import Problem

#: Of these a node may promise more than it has. Of every other resource: request = limit.
_SHARED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_RESOURCE_NAME: Final = (
    rf"{'|'.join(sorted(_SHARED))}|hugepages-[0-9]{{1,9}}[KMG]i|{names.SUBDOMAIN}/{names.LABEL}"
)
AMOUNT_RULE: Final = "must be an amount of zero, or from 1n to 2^63-1"
AMOUNT_FIX: Final = "write for example 500m or 2Gi"


def read(given: object, at: str, problems: list[Problem]) -> Json:
    """Read limits and requests; Kubernetes drops a section without amounts, so this does, too."""
    found: Json = {}
    for section in ("limits", "requests"):
        amounts = given.get(section) or {} if isinstance(given, dict) else given
        where = f"{at}.{section}"
        if not isinstance(amounts, dict):
            rule, hint = "must be amounts by resource", 'write for example {"memory": "2Gi"}'
            problems.append(Problem(where, fields.shown(amounts), rule, hint))
            continue
        for name, amount in amounts.items():
            problems += _amount_problems(f"{where}.{name}", name, amount)
        if amounts:
            found[section] = amounts
    problems += _unlimited(found.get("requests", {}), found.get("limits", {}), at)
    return found


def _unlimited(requests: Json, limits: Json, at: str) -> Iterator[Problem]:
    """Find requests that their limits do not allow."""
    for name, amount in requests.items():
        least, most = quantities.value(amount), quantities.value(limits.get(name))
        above, limit = f"{at}.limits.{name}", limits.get(name, "missing")
        if least is None:
            continue  # `_amount_problems` has said it
        if name not in _SHARED and least != most:
            rule, hint = f"must be the same as {above} ({limit})", "write both, or the limit alone"
        elif most is not None and least > most:
            rule, hint = f"must not be above {above} ({limit})", "raise that or lower this"
        else:
            continue
        yield Problem(f"{at}.requests.{name}", fields.shown(amount), rule, hint)


def _amount_problems(where: str, name: str, amount: object) -> Iterator[Problem]:
    if not names.is_name(_RESOURCE_NAME, name):
        rule = "must be cpu, memory, ephemeral-storage or a resource's whole name"
        yield Problem(where, fields.shown(name), rule, "write for example memory")
    if quantities.value(amount) is None:
        yield Problem(where, fields.shown(amount), AMOUNT_RULE, AMOUNT_FIX)
