"""A cluster's root in the metadata store, as the operator sees and changes it."""
