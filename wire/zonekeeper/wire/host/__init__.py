"""What stands between a transport and a bookie, the same for every transport."""
