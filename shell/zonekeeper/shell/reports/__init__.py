"""What commands say, apart from how they are called."""
