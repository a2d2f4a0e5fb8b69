"""Name of one try of a request on one worker."""

from typing import NamedTuple


class AttemptKey(NamedTuple):
    """Request id and attempt number, from 1; every release names the attempt it releases."""

    request_id: str
    number: int
