"""Spark: ledgers as DataFrames."""
