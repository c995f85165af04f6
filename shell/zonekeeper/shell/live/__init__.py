"""Commands on a cluster that runs: what they show and change is in its store and its bookies."""
