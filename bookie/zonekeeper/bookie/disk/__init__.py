"""Files and the threads that work on them: the interface, the real one and its twin."""
