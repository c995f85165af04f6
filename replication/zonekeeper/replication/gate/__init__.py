"""What people do to the gate: release, hold, declare planned work, look at the price."""
