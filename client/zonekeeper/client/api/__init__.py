"""What an application holds: a client, a writer, a reader, and their blocking forms."""
