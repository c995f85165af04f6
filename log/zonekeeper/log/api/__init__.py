"""What applications use: the writer and the reader of a log."""
