"""Load that is offered to a server whether it keeps up or not, and what came of it."""
