"""Times as OpenAI's objects tell them."""


def unix_seconds(unix_ms: int) -> int | None:
    """Unix seconds of Unix milliseconds; None for 0, which is not yet, or never."""
    return unix_ms // 1_000 if unix_ms else None
