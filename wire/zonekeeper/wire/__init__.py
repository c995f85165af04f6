"""The contract between a client and a bookie: entries, frames, the gRPC service, links, errors.

The bytes of an entry are Apache BookKeeper's; frames, carriers and the service are our own. Nothing
here decides who is asked or what an answer means for a ledger: that is the client's.
"""
