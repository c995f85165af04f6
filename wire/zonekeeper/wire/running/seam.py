"""The seam between the operator and what it runs: names that one writes and the other reads.

The operator makes pods, and a bookie or an autorecovery process runs in each. This module has all
that both sides must agree on: the names of the environment variables, the commands, the ports, and
the paths of probes. An operator and the processes of its clusters may be of different versions. So
no name here changes: a new name gets a line of its own beside the old one.
"""

from typing import Final

# ── the environment: the operator sets it, and the settings of the process read it ──

METADATA: Final = "ZONEKEEPER_METADATA"
BOOKIE_ID: Final = "ZONEKEEPER_BOOKIE_ID"
ZONE: Final = "ZONEKEEPER_ZONE"
UPGRADE_DOMAINS: Final = "ZONEKEEPER_UPGRADE_DOMAINS"
DATA: Final = "ZONEKEEPER_DATA"
JOURNAL: Final = "ZONEKEEPER_JOURNAL"
LISTEN: Final = "ZONEKEEPER_LISTEN"
LISTEN_SOCKET: Final = "ZONEKEEPER_LISTEN_SOCKET"
ADVERTISE: Final = "ZONEKEEPER_ADVERTISE"
HTTP: Final = "ZONEKEEPER_HTTP"
HTTP_TLS: Final = "ZONEKEEPER_HTTP_TLS"
TLS_AUTHORITY: Final = "ZONEKEEPER_TLS_AUTHORITY"
TLS_CERTIFICATE: Final = "ZONEKEEPER_TLS_CERTIFICATE"
TLS_KEY: Final = "ZONEKEEPER_TLS_KEY"
#: An autorecovery process's name in elections and claims.
NAME: Final = "ZONEKEEPER_NAME"

#: The file for a process's last words: where the kubelet reads them.
TERMINATION_LOG: Final = "ZONEKEEPER_TERMINATION_LOG"
TERMINATION_LOG_PATH: Final = "/dev/termination-log"

#: The last words of a bookie that the store knows, and whose disk is empty, have this.
LOST_DISK: Final = (
    "the disk was wiped, or is not mounted; mount the right one. If it is lost for good"
)

# ── the commands of the containers ──

COMMAND: Final = ("zonekeeper", "bookie", "run")
#: Prints the formats of a release, and leaves them as last words.
FORMATS_COMMAND: Final = ("zonekeeper", "bookie", "formats", "--output", "json")
#: Gives a bookie an empty disk; the name of the bookie follows.
REFILL_COMMAND: Final = ("zonekeeper", "bookie", "cookie", "replace-disk", "--yes", "--id")
#: Writes while a zone is away for a drill; the name of the zone follows.
PROBE_COMMAND: Final = ("zonekeeper", "operator", "probe", "--away")
REPAIR_COMMAND: Final = ("zonekeeper", "autorecovery", "run")

# ── ports ──

GRPC_PORT: Final = 3181
HTTP_PORT: Final = 8080
SOCKET_PORT: Final = 3182

# ── the paths that every process of ours answers at its HTTP port ──

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
STATE_PATH: Final = "/state"
