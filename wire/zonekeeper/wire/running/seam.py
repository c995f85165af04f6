"""The seam between operator and bookie: the names that the operator writes and a bookie reads.

The operator makes pods, and a bookie runs in each. This module has all that both must agree on: the
names of the environment variables, the ports, and the paths of probes. An operator and the bookies
of its clusters may be of different versions. So no name here changes: a new name gets a line of its
own beside the old one.
"""

from typing import Final

# ── the environment: the operator sets it, and the bookie's settings read it ──

METADATA: Final = "ZONEKEEPER_METADATA"
BOOKIE_ID: Final = "ZONEKEEPER_BOOKIE_ID"
ZONE: Final = "ZONEKEEPER_ZONE"
UPGRADE_DOMAINS: Final = "ZONEKEEPER_UPGRADE_DOMAINS"
DATA: Final = "ZONEKEEPER_DATA"
LISTEN: Final = "ZONEKEEPER_LISTEN"
ADVERTISE: Final = "ZONEKEEPER_ADVERTISE"
HTTP: Final = "ZONEKEEPER_HTTP"

# ── the command of the container ──

COMMAND: Final = ("zonekeeper", "bookie", "run")

# ── ports ──

GRPC_PORT: Final = 3181
HTTP_PORT: Final = 8080

# ── the paths that every process of ours answers at its HTTP port ──

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
STATE_PATH: Final = "/state"
