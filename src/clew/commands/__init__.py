"""One plain typed function for each command of `clew`."""
