"""What is shipped for monitoring: the metrics that it uses, a dashboard, and alert rules."""
