"""The top of the command: it hosts what components publish; and the YAML that people write."""
