"""Long orders of people about one bookie: decommission it, recover what it held."""
