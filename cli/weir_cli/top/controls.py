"""What keys do to the board."""

from weir_cli.top.board import Board, Order

_ORDERS = list(Order)
_ENTER, _ESCAPE, _DELETE = ("\r", "\n"), "\x1b", ("\x7f", "\b")


class Controls:
    """Reads keys one after the other.

    Attributes:
        ended: `q` was pressed.
        typing: the beginning of a tenant's id that is being typed; None while none is.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.ended = False
        self.typing: str | None = None

    def press(self, key: str) -> None:
        """One key."""
        if self.typing is not None:
            self._type(key)
        elif key in "qQ\x03":
            self.ended = True
        elif key == "s":
            place = (_ORDERS.index(self._board.order) + 1) % len(_ORDERS)
            self._board.order = _ORDERS[place]
        elif key == "t":
            self.typing = ""
        elif key == "a":
            self._board.tenant = ""

    @property
    def hint(self) -> str:
        """What the last line says while something is typed; empty otherwise."""
        return f"tenant: {self.typing}_   (Enter, Esc)" if self.typing is not None else ""

    def _type(self, key: str) -> None:
        typed = self.typing or ""
        if key in _ENTER:
            self._board.tenant, self.typing = typed, None
        elif key == _ESCAPE:
            self.typing = None
        elif key in _DELETE:
            self.typing = typed[:-1]
        elif key.isprintable():
            self.typing = typed + key
