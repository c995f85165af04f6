"""The pure core of a link: it decides what is sent, and when, and reports the outcomes."""
