"""Why a process could not start."""


class StartupError(Exception):
    """A process cannot start; the message is one line that says what and which knob."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
