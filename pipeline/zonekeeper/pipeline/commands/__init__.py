"""What a container of Spark on Kubernetes runs: the driver, an executor, or a command."""
