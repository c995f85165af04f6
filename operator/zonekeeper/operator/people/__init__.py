"""What people order on the resource: how an order is written, judged, answered and shown."""
