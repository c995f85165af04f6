"""The Kubernetes operator: it reads `BookieCluster` resources and keeps their bookies running."""
