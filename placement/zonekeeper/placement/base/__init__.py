"""The terms of every rule: ids, places, kinds of value, quorums, the topology."""
