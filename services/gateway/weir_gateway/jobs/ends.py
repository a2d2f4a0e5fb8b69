"""Who is told, in the same transaction, that a job has ended."""

from collections.abc import Awaitable, Callable

from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.jobs.job import Job

JobListener = Callable[[AsyncConnection, Job], Awaitable[None]]


class JobEnds:
    """Listeners of ends; what one of them raises undoes the end.

    Lines of a batch that are cancelled or expire all at once are not told one by one.
    """

    def __init__(self) -> None:
        self._listeners: list[JobListener] = []

    def listen(self, listener: JobListener) -> None:
        """Calls `listener` with each whole job that has ended, once."""
        self._listeners.append(listener)

    async def tell(self, connection: AsyncConnection, job: Job) -> None:
        """A job has ended in the transaction of `connection`."""
        for listener in self._listeners:
            await listener(connection, job)
