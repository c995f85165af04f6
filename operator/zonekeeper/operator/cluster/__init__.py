"""A resource as it is read, the objects that are made of it, and the objects that are there."""
