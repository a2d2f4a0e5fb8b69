"""What hinders the ledger as a whole."""


class LedgerUnusable(Exception):
    """No event can be written now, whichever it is: they wait. The message says why."""
