"""Jobs over a whole cluster: audits, reports and repair, as DataFrames and as commands."""
