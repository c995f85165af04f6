"""The settings of the operator's process: texts become values, or a refusal that says why.

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
    """The settings as values."""

    #: The namespaces that are served; empty: all.
    namespaces: tuple[str, ...]
    #: The URL where liveness probes are answered; None: nowhere.
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
    parts = urlsplit(text)  # ``port`` raises ValueError for a port that is no number
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"{text!r}: must be http://HOST:PORT/PATH")
    return text
