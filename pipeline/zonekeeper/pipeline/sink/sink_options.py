"""The options of the sink: which log is written, and how its cluster is reached.

Spark adds some of a stream's own options (``SPARKS_OWN``); they say nothing to the sink. Options of
the source alone are refused, because they would do nothing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.pipeline.base import connection_options
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.base.option_texts import OptionTexts
from zonekeeper.placement.base.settings import Setting
from zonekeeper.placement.base.troubles import Refusal

#: What Spark passes on of a stream, in lower case.
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
LOG: Final = Setting(name="log", shown_as="NAME", help="The log that is written. It must exist.")
SETTINGS: Final = (connection_options.SETTINGS[0], LOG, *connection_options.SETTINGS[1:])


class OverwriteRefused(Refusal):
    """A log is only appended to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Which log is written, and how its cluster is reached."""

    connection: ConnectionOptions
    log: str


def parse(given: Mapping[str, str]) -> SinkOptions:
    """Read the options, or raise ``InvalidFieldsError`` with all faults."""
    own = {name: text for name, text in given.items() if name.lower() not in SPARKS_OWN}
    texts = OptionTexts(own, SETTINGS)
    connection = connection_options.given(texts)
    texts.require("log", '.option("log", "orders/eu")')
    name = texts.read("log", _log_name)
    texts.check()
    assert name is not None, "what is lacking is a problem"
    return SinkOptions(connection=connection, log=name)


def refuse_overwrite(log: str) -> OverwriteRefused:
    """Give the error for a write that would replace what the log has."""
    return OverwriteRefused(
        f"log {log} is only appended to, and mode overwrite, or a stream's output mode complete, "
        'would replace it; nothing was written: use .mode("append"), or .outputMode("append")'
    )


def _log_name(text: str) -> str:
    try:
        log_names.check(text)
    except BadLogNameError as error:
        raise ValueError(
            f"is no name of a log: {error}; write it as `zonekeeper log list` does"
        ) from None
    return text
