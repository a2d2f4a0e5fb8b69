"""What a worker can do, measured, and the parameters that follow from it."""
