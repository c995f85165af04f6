"""``kubectl zonekeeper``: what people see and order with rights on the resource alone."""
