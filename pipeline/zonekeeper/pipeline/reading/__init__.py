"""What a read is: its options, its plan, and entries as Arrow columns. No Spark session, no I/O."""
