"""What every part of the pipeline uses: the client of a worker, and troubles in one line."""
