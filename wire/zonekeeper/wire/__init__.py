"""The contract between a client and a bookie: entries, frames, the gRPC service, links, errors.

The bytes of an entry are Apache BookKeeper's; frames, carriers and the service are our own. Nothing
here decides who is asked or what an answer means for a ledger: that is the client's.

gRPC is told not to prepare for forks, before it is imported. Nobody uses what it prepares, and
where its threads are busy it ends a forked process that forks again by a segmentation fault (seen
with grpcio 1.85.1).
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
