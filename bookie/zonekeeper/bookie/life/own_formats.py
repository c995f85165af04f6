"""The formats of this release, for ``zonekeeper bookie formats`` and the bookie's record.

A format of the disk is named here if a file of it says its version, and a start refuses a file of a
later version. Batches, their records, sorted segments, frames and the rows of the index have no say
of their own: a start reads the checkpoint first. So a release that changes one of them raises the
version of the checkpoint, too, and saves a checkpoint before it writes anything in the new form.
"""

from importlib import metadata
from typing import Final

from zonekeeper.bookie.formats import checkpoint_format, log_end
from zonekeeper.bookie.life import boots, known_metadata
from zonekeeper.metadata.formats import cookies, ledger_format, records
from zonekeeper.metadata.formats.release_formats import WIRE, FormatRange, ReleaseFormats
from zonekeeper.wire.formats import versions

DISTRIBUTION: Final = "zonekeeper"


def of_this_release() -> ReleaseFormats:
    """Give them; the version is that of the installation."""
    return ReleaseFormats(
        version=metadata.version(DISTRIBUTION),
        wire={WIRE: FormatRange(versions.SPOKEN.lowest, versions.SPOKEN.highest)},
        disk={
            "checkpoint": FormatRange(checkpoint_format.VERSION_MIN, checkpoint_format.VERSION),
            "log-end": FormatRange(log_end.VERSION, log_end.VERSION),
            "boots": FormatRange(boots.VERSION, boots.VERSION),
            "known-metadata": FormatRange(known_metadata.VERSION, known_metadata.VERSION),
            "cookie": FormatRange(cookies.LAYOUT_VERSION, cookies.LAYOUT_VERSION),
        },
        metadata={
            "record": FormatRange(records.FORMAT_MIN, records.FORMAT),
            "ledger": FormatRange(ledger_format.VERSION_MIN, ledger_format.VERSION),
            "cookie": FormatRange(cookies.LAYOUT_VERSION, cookies.LAYOUT_VERSION),
        },
    )
