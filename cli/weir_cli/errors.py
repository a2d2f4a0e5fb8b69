"""How a command fails."""


class CommandError(Exception):
    """A command cannot go on; the message is one line that says what and which knob."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
