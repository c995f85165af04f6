"""What long-lived processes have in common: signals, and pages to look at."""
