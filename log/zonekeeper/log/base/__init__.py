"""What every part of a log's client uses: its errors."""
