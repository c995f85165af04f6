"""The stages of a cluster that is built and kept up; most of them give a condition, too."""
