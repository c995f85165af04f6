"""Which process of the operator may act: a Lease in Kubernetes, held by one of them at a time."""
