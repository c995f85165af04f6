"""The settings of the operator's process: texts become values, or a clear refusal.

``SETTINGS`` is the table: flags, help and the page of the documentation follow from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from zonekeeper.placement.base.settings import GivenSettings, Setting
from zonekeeper.wire.running import seam

SETTINGS: Final = (
    Setting(
        name="namespace",
        shown_as="NAME",
        variable="ZONEKEEPER_NAMESPACES",
        many=True,
        otherwise="all",
        help="Serve this namespace only; can be given several times (in the environment: separated "
        "by spaces).",
    ),
    Setting(
        name="liveness",
        shown_as="URL",
        help="Answer liveness probes there, for example "
        f"http://0.0.0.0:{seam.HTTP_PORT}{seam.ALIVE_PATH}.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What the process is told."""

    #: Empty: all.
    namespaces: tuple[str, ...]
    #: Where to answer liveness probes, such as http://0.0.0.0:8080/healthz.
    liveness: str | None


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> OperatorSettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    given = GivenSettings(SETTINGS, flags, environment, file, file_name)
    return OperatorSettings(
        namespaces=given.optional("namespace", _names) or (),
        liveness=given.optional("liveness", _url),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _url(text: str) -> str:
    parts = urlsplit(text)  # a port that is no number is refused by ``port``, in a ValueError
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"{text!r}: must be http://HOST:PORT/PATH")
    return text
