"""Which stop sequence ended an answer: its tokens tell, its text does not show it."""

from collections.abc import Iterable, Sequence

from weir_core.token_bytes import TokenBytes


class StopSequence:
    """Reads the tokens of one answer.

    Args:
        token_bytes: of the model.
        stops: that were asked for.
    """

    def __init__(self, token_bytes: TokenBytes, stops: Sequence[str]) -> None:
        self._token_bytes = token_bytes
        self._stops = [stop.encode() for stop in stops]
        self._data = bytearray()

    def add(self, token_ids: Iterable[int]) -> None:
        """More tokens."""
        if self._stops:
            for token_id in token_ids:
                self._data += self._token_bytes.of(token_id)

    def found(self) -> str | None:
        """The one that comes first; None if the model ended by itself."""
        places = [(self._data.find(stop), stop) for stop in self._stops]
        found = min((entry for entry in places if entry[0] >= 0), default=None)
        return None if found is None else found[1].decode()
