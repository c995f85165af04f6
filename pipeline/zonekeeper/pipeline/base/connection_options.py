"""The options that say how a cluster is reached; sources and sinks share them.

Secrets are named as files. The names go into plans, and each process reads the files by itself: the
driver's planners and every executor. So no password and no private key stands in a plan, an error,
an event log or an offset. Certificates that are renewed on the executors are used by new
connections.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.store.errors import BadStoreUriError
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.pipeline.base.option_texts import OptionTexts
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.settings import Setting
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.wire.grpc.tls import TlsFiles

#: A password's file has no more than this.
PASSWORD_BYTES_MAX: Final = 64 << 10

_TLS: Final = ("tlsAuthority", "tlsCertificate", "tlsKey")
SETTINGS: Final = (
    METADATA,
    Setting(
        name="passwordFile",
        shown_as="FILE",
        otherwise="no password",
        help="A file on the driver and on every executor with the ledgers' password; a newline at "
        "its end does not count.",
    ),
    Setting(
        name="tlsAuthority",
        shown_as="FILE",
        otherwise="a local cluster's own; else nothing is encrypted",
        help="A file on the driver and on every executor: PEM of the authority whose bookies are "
        "trusted. With the next two.",
    ),
    Setting(
        name="tlsCertificate",
        shown_as="FILE",
        help="A file there, too: PEM of the certificate to show to bookies.",
    ),
    Setting(
        name="tlsKey",
        shown_as="FILE",
        help="A file there, too: PEM of the private key of `tlsCertificate`.",
    ),
    Setting(
        name="zone",
        shown_as="ZONE",
        otherwise="`ZONEKEEPER_ZONE` of each executor",
        help="The zone of all executors: bookies of it are asked first.",
    ),
)


class BadSecretFileError(Refusal):
    """The file of a secret cannot be used; its content is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a cluster is reached. It has no secret: it may stand in a plan."""

    metadata: str
    password_file: str | None = None
    tls: TlsFiles | None = None
    zone: str | None = None

    def config(self) -> ClientConfig:
        """Read the files on this machine, and give a client's settings."""
        return ClientConfig(zone=self.zone, tls=readable(self.tls), password=self._password())

    def _password(self) -> Secret:
        if self.password_file is None:
            return Secret()
        try:
            with Path(self.password_file).open("rb") as file:
                found = file.read(PASSWORD_BYTES_MAX + 1)
        except OSError as error:
            raise _unreadable(f"passwordFile: {self.password_file}", error) from error
        found = found.removesuffix(b"\n").removesuffix(b"\r")
        if not 0 < len(found) <= PASSWORD_BYTES_MAX:
            size = "empty" if not found else f"larger than {PASSWORD_BYTES_MAX} bytes"
            raise BadSecretFileError(
                f"passwordFile: {self.password_file} is {size}: for ledgers without a password "
                "leave the option out"
            )
        return Secret(found)


def readable(files: TlsFiles | None) -> TlsFiles | None:
    """Give the names of TLS files that this machine has; raises ``BadSecretFileError``."""
    if files is not None:
        for name in ("authority", "certificate", "key"):
            path: Path = getattr(files, name)
            try:
                path.open("rb").close()
            except OSError as error:
                raise _unreadable(f"{path}, the TLS file of the {name},", error) from error
    return files


def _unreadable(which: str, error: OSError) -> BadSecretFileError:
    return BadSecretFileError(
        f"{which} cannot be read on this machine: {error.strerror or type(error).__name__}; the "
        "file must be on the driver and on every executor"
    )


def given(texts: OptionTexts) -> ConnectionOptions:
    """Read the options of a connection; the caller calls ``texts.check`` before it uses them."""
    return ConnectionOptions(
        metadata=address(texts, '.option("metadata", "zk://host:2181/ledgers")'),
        password_file=texts.text("passwordFile"),
        tls=tls_files(texts, _TLS),
        zone=texts.text("zone"),
    )


def address(texts: OptionTexts, example: str) -> str:
    """Read the address of the metadata store; ``example`` shows how the option is given."""
    texts.require(METADATA.name, example)
    text = texts.text(METADATA.name) or ""
    if text:
        try:
            uri.parse(text)
        except BadStoreUriError as error:
            fix = "write the address that the bookies have"
            texts.wrong(METADATA.name, "cannot be used", str(error), fix)
    return text


def tls_files(texts: OptionTexts, names: tuple[str, str, str]) -> TlsFiles | None:
    """Read the names of the files of authority, certificate and key, under these names."""
    files = [texts.text(name) for name in names]
    missing = [name for name in names if name not in texts]
    if 0 < len(missing) < len(names):
        rule = "is required: authority, certificate and key make TLS only together"
        texts.wrong(missing[0], "not given", rule, "give all three, or none")
    authority, certificate, key = (Path(file or "") for file in files)
    return None if missing else TlsFiles(authority=authority, certificate=certificate, key=key)
