"""What is wrong with a running deployment, why, and what to change: evidence in, findings out."""
