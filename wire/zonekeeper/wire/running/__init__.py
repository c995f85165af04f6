"""Parts that all long-lived processes share: signals, and pages to look at."""
