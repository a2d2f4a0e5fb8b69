"""A part of a page that another process tells: what it told, or why it did not."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_request_id
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)

_MOST_S = 4.0

Card = dict[str, Any]


class Cards:
    """Makes them; one part that is away leaves the others as they are.

    Args:
        clock: for ids of faults.
        most_s: how long a part is waited for.
    """

    def __init__(self, clock: Clock, most_s: float = _MOST_S) -> None:
        self._clock = clock
        self._most_s = most_s

    async def of(self, work: Awaitable[Any]) -> Card:
        """`{"data": ..., "error": null}`, or the other way round."""
        try:
            async with asyncio.timeout(self._most_s):
                return {"data": await work, "error": None}
        except WeirError as error:
            return _failed(error)
        except TimeoutError:
            told = f"no answer came within {self._most_s:.0f} s"
            return _failed(WeirError(Reason.DEADLINE_EXCEEDED, told))
        except Exception as error:
            error_id = new_request_id(self._clock)
            _log.error("console_card_failed", error_id=error_id, exc_info=error)
            return _failed(WeirError(Reason.INTERNAL, f"internal error, id {error_id}"))

    async def all(self, **works: Awaitable[Any]) -> dict[str, Card]:
        """Several at once, by name."""
        cards = await asyncio.gather(*(self.of(work) for work in works.values()))
        return dict(zip(works, cards, strict=True))


def error_json(error: WeirError) -> dict[str, str]:
    """Why a part could not be told."""
    return {"reason": error.reason.value, "message": error.message}


def _failed(error: WeirError) -> Card:
    return {"data": None, "error": error_json(error)}
