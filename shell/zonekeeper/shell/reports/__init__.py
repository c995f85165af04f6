"""The texts and data that commands answer with, apart from how commands are called."""
