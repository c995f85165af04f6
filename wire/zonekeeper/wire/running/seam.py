"""The seam between operator and bookie: what one puts into a pod, and the other reads there.

The operator makes pods, and a bookie runs in each. They share no code but this page: the names of
the environment variables, the ports, and the paths that are probed. An operator and the bookies of
its clusters may be of different versions, so what stands here does not change: a new name is a new
line, beside the old one.
"""

from typing import Final

# ── the environment: what the operator says, and the bookie's settings read ──

METADATA: Final = "ZONEKEEPER_METADATA"
BOOKIE_ID: Final = "ZONEKEEPER_BOOKIE_ID"
ZONE: Final = "ZONEKEEPER_ZONE"
UPGRADE_DOMAINS: Final = "ZONEKEEPER_UPGRADE_DOMAINS"
DATA: Final = "ZONEKEEPER_DATA"
LISTEN: Final = "ZONEKEEPER_LISTEN"
ADVERTISE: Final = "ZONEKEEPER_ADVERTISE"
HTTP: Final = "ZONEKEEPER_HTTP"

# ── what is run ──

COMMAND: Final = ("zonekeeper", "bookie", "run")

# ── ports ──

GRPC_PORT: Final = 3181
HTTP_PORT: Final = 8080

# ── what is answered at the HTTP port, by every process of ours ──

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
STATE_PATH: Final = "/state"
