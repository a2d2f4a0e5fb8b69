"""A live view of a deployment in the terminal."""
