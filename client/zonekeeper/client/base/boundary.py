"""The one table that translates errors of the layers below into errors of the client."""

from collections.abc import Iterator
from contextlib import contextmanager

from zonekeeper.client.base import errors
from zonekeeper.metadata.formats.ledger_metadata import IllegalChangeError
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers.ledgers import LedgerExistsError, LostIdError, NoLedgerError
from zonekeeper.metadata.store.errors import BadStoreUriError, StoreError
from zonekeeper.metadata.stores import uri
from zonekeeper.placement.ensembles.failures import PlacementError


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Translate errors of metadata and placement that are raised in the block.

    ``doing`` says what was attempted; the message begins with it.
    """
    try:
        yield
    except NoLedgerError as error:
        raise errors.NoSuchLedger(f"{doing}: {error}") from error
    except PlacementError as error:
        kind = errors.NotEnoughBookies if error.retryable else errors.IllegalPlacement
        raise kind(f"{doing}: {error}") from error
    except BadStoreUriError as error:
        said = str(error)
        forms = "" if uri.EXAMPLES in said else f"; an address is one of {uri.EXAMPLES}"
        raise errors.BadAddress(f"{doing}: {said}{forms}") from error
    except (
        StoreError,
        UnreadableError,
        LedgerExistsError,
        LostIdError,
        IllegalChangeError,
    ) as error:
        raise errors.MetadataFailed(
            f"{doing}: {error}", retryable=error.retryable, maybe_applied=error.maybe_applied
        ) from error
