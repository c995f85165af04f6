"""Jobs over a whole cluster: audits and reports, as DataFrames and as commands."""
