"""The contract between a client and a bookie: entries, frames, the gRPC service, links, errors.

The bytes of an entry are Apache BookKeeper's; frames, carriers and the service are our own. The
wire does not decide which bookie is asked, or what an answer means for a ledger: the client does.

Before gRPC is imported it is told not to prepare for forks. No part of zonekeeper needs that. And
where gRPC's threads are busy, its preparation ends a forked process that forks again by a
segmentation fault (seen with grpcio 1.85.1).
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
