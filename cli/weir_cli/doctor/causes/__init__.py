"""Causes of slowness, each with its check, its evidence and its remedy."""
