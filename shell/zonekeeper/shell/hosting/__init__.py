"""What all commands share: the top of the command, how a cluster is reached, how answers look."""
