"""Files, and the threads that work on them: each an interface, the real form and the twin."""
