"""The Kubernetes operator: custom resources in, StatefulSets and safe change out."""
