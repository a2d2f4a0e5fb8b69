"""A TCP proxy that can lose answers, and pass requests on when nobody waits for them any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LossyProxy:
    """Listens on `port` and passes everything on.

    Attributes:
        answers: pieces that came back from the server, lost ones included.
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self.answers = 0
        self._target_port = target_port
        self._to_lose = 0
        self._to_delay = 0
        self._delay_s = 0.0
        self._connections: set[asyncio.Task[None]] = set()

    def lose_answers(self, number: int) -> None:
        """Cut the connections of the next answers in place of passing them on.

        What was asked has been done, and nobody hears of it.
        """
        self._to_lose += number

    def delay_requests(self, number: int, delay_s: float) -> None:
        """Pass the next requests on after `delay_s` seconds, though their callers hang up."""
        self._to_delay += number
        self._delay_s = delay_s

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def close(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(
                "127.0.0.1", self._target_port
            )
            try:
                await self._pass_on(reader, writer, server_reader, server_writer)
            finally:
                server_writer.close()
        except OSError:
            pass
        finally:
            writer.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        """Until either side closes, or an answer is lost."""
        ways = {
            asyncio.create_task(self._pump_requests(reader, server_writer)),
            asyncio.create_task(self._pump_answers(server_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            if self._to_delay:
                self._to_delay -= 1
                await asyncio.sleep(self._delay_s)
            writer.write(data)
            await writer.drain()

    async def _pump_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            self.answers += 1
            if self._to_lose:
                self._to_lose -= 1
                return
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def lossy_proxy(target_port: int) -> AsyncIterator[LossyProxy]:
    proxy = LossyProxy(target_port)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
