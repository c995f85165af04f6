"""What every rule is said in: ids, places, kinds of value, quorums, the topology."""
