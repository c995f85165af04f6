"""What a configuration survives, what it costs, and what can be built during outages."""
