"""The options of the jobs that copy a log: export, import, mirror.

They are spelled as those of other jobs: ``--to-log`` on the command line, ``to_log`` in Python. All
faults are reported at once. Secrets are named as files, which are on the driver and on every
executor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.stores import settings as store_settings
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.base.option_texts import YES, OptionTexts
from zonekeeper.pipeline.planning import job_options
from zonekeeper.pipeline.reading import log_places
from zonekeeper.pipeline.reading.wanted import OneLog, ReadEdge
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.placement.base.settings import Setting
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles

#: How often a mirror that goes on copies what there is, in seconds.
EVERY_S: Final = 10
EVERY_S_MAX: Final = 3_600
#: The names of the options of the log that is made by a mirror begin so.
TO: Final = "to-"

LOG: Final = Setting(
    name="log",
    shown_as="NAME",
    required=True,
    help="The log that is exported or followed, or that an import makes.",
)
PASSWORD_FILE: Final = Setting(
    name="password-file",
    shown_as="FILE",
    otherwise="no password",
    help="A file on the driver and on every executor with the ledgers' password.",
)
#: The options that all of these jobs have.
EVERY_COPY: Final = (METADATA, LOG, PASSWORD_FILE, *tls.CLIENT_SETTINGS)
OF_EXPORT: Final = (
    Setting(
        name="output",
        shown_as="PATH",
        required=True,
        help="The folder that is made; its name ends with .parquet.",
    ),
    Setting(
        name="first",
        shown_as="PLACE",
        default=ReadEdge.EARLIEST.value,
        help="The first message that is exported.",
    ),
    Setting(
        name="last",
        shown_as="PLACE",
        default=ReadEdge.LATEST.value,
        help="The last message that is exported.",
    ),
)
OF_IMPORT: Final = (
    Setting(name="input", shown_as="PATH", required=True, help="The folder of an export."),
)
OF_MIRROR: Final = (
    Setting(
        name="checkpoint",
        shown_as="PATH",
        required=True,
        help="The folder, of this mirror alone, where Spark keeps how far it is.",
    ),
    Setting(
        name="to-metadata",
        shown_as="URI",
        otherwise="that of --metadata",
        help="Where the cluster of the log that is written is.",
    ),
    Setting(
        name="to-log",
        shown_as="NAME",
        otherwise="the name of --log",
        help="The log that is written.",
    ),
    Setting(
        name="create",
        shown_as=YES,
        otherwise="no",
        help="Make the log that is written if it is not there, with the rules of --log.",
    ),
    Setting(
        name="until-now",
        shown_as=YES,
        otherwise="no: it goes on as the log grows",
        help="End when all is copied that the log had at the start.",
    ),
    Setting(
        name="every",
        shown_as="SECONDS",
        default=str(EVERY_S),
        help="How often a mirror that goes on copies what there is.",
    ),
    *(
        replace(one, name=f"{TO}{one.name}", help=f"The same for the log that is written: {text}")
        for one, text in (
            (PASSWORD_FILE, "a file with its password."),
            (tls.CLIENT_SETTINGS[0], "PEM of the authority of its bookies."),
            (tls.CLIENT_SETTINGS[1], "PEM of the certificate to show to them."),
            (tls.CLIENT_SETTINGS[2], "PEM of the private key of --to-tls-certificate."),
        )
    ),
)

_PARQUET: Final = ".parquet"
_TLS: Final = tuple(setting.name for setting in tls.CLIENT_SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Which messages are exported, and where to."""

    connection: ConnectionOptions
    log: OneLog
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Which export is imported, and what its log is called."""

    connection: ConnectionOptions
    log: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """Which log is followed, and which one is written."""

    of: ConnectionOptions
    log: str
    to: ConnectionOptions
    to_log: str
    checkpoint: str
    create: bool = False
    until_now: bool = False
    every_s: int = EVERY_S


_Spelled = Callable[[str], str]


def parse_export(
    given: Mapping[str, str], spelled: _Spelled = job_options.of_command_line
) -> ExportOptions:
    """Read the options of an export, or raise ``InvalidFieldsError`` with all faults."""
    texts = OptionTexts(given, EVERY_COPY + OF_EXPORT)
    connection, name = _connection(texts), _log(texts, LOG.name)
    first, last = texts.read("first", log_places.parse), texts.read("last", log_places.parse)
    if last is ReadEdge.EARLIEST:
        texts.wrong("last", "earliest", "is never the last message that is wanted", "write latest")
    output = _path(texts, "output", "/exports/orders.parquet")
    name_of_folder = output.rpartition("/")[2]
    if output and (not name_of_folder.endswith(_PARQUET) or name_of_folder == _PARQUET):
        rule = f"its name says the format, and must end with {_PARQUET}"
        texts.wrong("output", output, rule, "write for example /exports/orders.parquet")
    _check(texts, spelled)
    log = OneLog(name=name, first=first, last=last)
    return ExportOptions(connection=connection, log=log, output=output)


def parse_import(
    given: Mapping[str, str], spelled: _Spelled = job_options.of_command_line
) -> ImportOptions:
    """Read the options of an import, or raise ``InvalidFieldsError`` with all faults."""
    texts = OptionTexts(given, EVERY_COPY + OF_IMPORT)
    connection, name = _connection(texts), _log(texts, LOG.name)
    source = _path(texts, "input", "/exports/orders.parquet")
    _check(texts, spelled)
    return ImportOptions(connection=connection, log=name, source=source)


def parse_mirror(
    given: Mapping[str, str], spelled: _Spelled = job_options.of_command_line
) -> MirrorOptions:
    """Read the options of a mirror, or raise ``InvalidFieldsError`` with all faults."""
    texts = OptionTexts(given, EVERY_COPY + OF_MIRROR)
    of, log = _connection(texts), _log(texts, LOG.name)
    to, to_log = _connection(texts, TO, of.metadata), _log(texts, f"{TO}{LOG.name}", log)
    if (to.metadata, to_log) == (of.metadata, log) and not texts.problems:
        rule = "is the log that is followed"
        texts.wrong(f"{TO}{LOG.name}", to_log, rule, "name another log, or another cluster")
    every_s = texts.number("every", 1, EVERY_S_MAX)
    until_now = texts.yes("until-now")
    if every_s is not None and until_now:
        texts.wrong("every", str(every_s), "is for a mirror that goes on", "leave one of both out")
    ready = MirrorOptions(
        of=of,
        log=log,
        to=to,
        to_log=to_log,
        checkpoint=_path(texts, "checkpoint", "/checkpoints/orders"),
        create=texts.yes("create"),
        until_now=until_now,
        every_s=every_s or EVERY_S,
    )
    _check(texts, spelled)
    return ready


def for_spark(connection: ConnectionOptions) -> dict[str, str]:
    """Give a connection as options of the data source."""
    files = connection.tls
    given = {
        "metadata": connection.metadata,
        "passwordFile": connection.password_file,
        "zone": connection.zone,
        "tlsAuthority": None if files is None else str(files.authority),
        "tlsCertificate": None if files is None else str(files.certificate),
        "tlsKey": None if files is None else str(files.key),
    }
    return {name: text for name, text in given.items() if text is not None}


def _check(texts: OptionTexts, spelled: _Spelled) -> None:
    if texts.problems:
        raise InvalidFieldsError([replace(one, path=spelled(one.path)) for one in texts.problems])


def _connection(texts: OptionTexts, prefix: str = "", otherwise: str = "") -> ConnectionOptions:
    metadata = texts.read(f"{prefix}{METADATA.name}", _address) or otherwise
    if not prefix:
        texts.require(METADATA.name, "zk://host:2181/ledgers")
    names = [f"{prefix}{name}" for name in _TLS]
    files = [texts.text(name) for name in names]
    missing = [name for name in names if name not in texts]
    if 0 < len(missing) < len(names):
        rule = "is required: authority, certificate and key make TLS only together"
        texts.wrong(missing[0], "not given", rule, "give all three, or none")
    authority, certificate, key = (Path(one or "") for one in files)
    return ConnectionOptions(
        metadata=metadata,
        password_file=texts.text(f"{prefix}{PASSWORD_FILE.name}"),
        tls=None if missing else TlsFiles(authority=authority, certificate=certificate, key=key),
    )


def _address(text: str) -> str:
    try:
        return store_settings.address(text)
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}; write the address that bookies have") from None


def _log(texts: OptionTexts, name: str, otherwise: str = "") -> str:
    if name == LOG.name:
        texts.require(name, "orders/eu")
    return texts.read(name, _log_name) or otherwise


def _log_name(text: str) -> str:
    try:
        log_names.check(text)
    except BadLogNameError as error:
        raise ValueError(
            f"is no name of a log: {error}; write it as `zonekeeper log list` does"
        ) from None
    return text


def _path(texts: OptionTexts, name: str, example: str) -> str:
    texts.require(name, example)
    return (texts.text(name) or "").rstrip("/")
