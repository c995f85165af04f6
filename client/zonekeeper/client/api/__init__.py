"""The objects that an application uses: client, writer and reader, and their blocking forms."""
