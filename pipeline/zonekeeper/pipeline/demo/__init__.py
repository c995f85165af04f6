"""The demonstration of Spark: ``python -m zonekeeper.pipeline.demo``, or ``make demo-spark``."""
