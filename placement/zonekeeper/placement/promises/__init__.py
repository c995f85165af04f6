"""What a configuration survives, what it costs, and what outages leave to build with."""
