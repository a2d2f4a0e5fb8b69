"""Faults of parts, each with its check, its evidence and its remedy."""
