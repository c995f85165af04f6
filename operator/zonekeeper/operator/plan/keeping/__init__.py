"""The stages of a cluster that comes to be and is kept up; each says its own condition, too."""
