"""The data source ``zonekeeper``: the thin shell between Spark and what ``reading`` decides."""
