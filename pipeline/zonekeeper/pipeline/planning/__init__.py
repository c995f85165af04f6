"""How a job is asked for, planned, carried out by tasks, watched and written, whatever it is."""
