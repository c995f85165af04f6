"""The host stands between a transport and a bookie; it is the same for every transport."""
