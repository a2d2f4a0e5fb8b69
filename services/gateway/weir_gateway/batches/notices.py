"""Who is told that a batch has ended."""

from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.batches.batch import Batch


async def tell_of_end(connection: AsyncConnection, batch: Batch) -> None:
    """Nobody yet."""
