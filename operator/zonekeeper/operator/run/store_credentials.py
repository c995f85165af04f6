"""The operator's own way to a cluster's ZooKeeper: the Secret that ``spec.metadata`` names."""

from typing import Final

from zonekeeper.operator.certificates import secret_data
from zonekeeper.operator.cluster import store_access
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import SECRETS, Kubernetes, NotPermittedError
from zonekeeper.operator.roots.roots import StoreWay
from zonekeeper.operator.roots.secret_files import SecretFiles
from zonekeeper.placement.base.troubles import Trouble

_KEYS: Final = (
    store_access.AUTH,
    store_access.AUTHORITIES,
    store_access.CERTIFICATE,
    store_access.KEY,
)


class NoCredentialsError(Trouble):
    """The Secret with the operator's credentials is not there, or lacks a value."""

    retryable = True


async def way(kubernetes: Kubernetes, held: SecretFiles, desired: Desired | None) -> StoreWay:
    """Give the way to the store, as the Secret is now; raises ``NoCredentialsError``."""
    access = store_access.OPEN if desired is None else desired.store
    if desired is None or access.credentials is None:
        held.close()
        return StoreWay()
    name = access.credentials.operator
    where = f"Secret {name} (spec.metadata.credentials.operator)"
    try:
        item = await kubernetes.get(SECRETS, desired.namespace, name)
    except NotPermittedError as error:
        raise NoCredentialsError(f"{where} may not be read: {error}") from error
    if item is None:
        raise NoCredentialsError(f"{where} is not there: make it")
    values = {key: secret_data.value(item, key) for key in _KEYS}
    lacking = [key for key in store_access.needed(access) if not values[key]]
    if lacking:
        raise NoCredentialsError(f"{where} lacks {' and '.join(lacking)}: add it")
    files = held.hold(values)
    return StoreWay(
        address=lambda uri: store_access.address(uri, access, files),
        turn=held.turn,
        identities=access.identities,
    )
