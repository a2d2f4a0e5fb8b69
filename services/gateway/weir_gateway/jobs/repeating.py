"""Work in the background that goes on whatever happens to it."""

import asyncio
from collections.abc import Awaitable, Callable

from weir_core.errors import WeirError
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)

_AWAY_S = 1.0


async def repeat(
    name: str, work: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]
) -> None:
    """Does `work`, then `pause`, for ever; after a failure a second later. Cancel it to end it."""
    while True:
        try:
            await work()
        except WeirError as error:
            _log.warning("background_work_waits", work=name, reason=error.reason)
            await asyncio.sleep(_AWAY_S)
        except Exception as error:
            _log.error("background_work_failed", work=name, exc_info=error)
            await asyncio.sleep(_AWAY_S)
        await pause()
