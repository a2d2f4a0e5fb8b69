"""One module for each command of `weir`."""
