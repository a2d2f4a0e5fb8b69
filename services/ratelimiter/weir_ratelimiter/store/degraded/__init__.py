"""A shared store that may be away, and a local account on a share of the limits meanwhile."""
