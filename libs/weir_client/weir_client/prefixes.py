"""Beginnings of prompts that requests of the caller's tenant share."""

from collections.abc import AsyncIterator, Iterable, Sequence

from weir.gateway.v1 import prefix_service_pb2 as wire
from weir.gateway.v1.prefix_service_pb2_grpc import PrefixServiceStub
from weir_client.connection import Connection
from weir_client.pages import all_pages
from weir_client.prefix import Prefix, Warmth, prefix_of, warmth_of
from weir_client.request import Message, chat_input


class Prefixes:
    """Keeps, reads, lists, computes and removes prefixes. Every call raises WeirClientError's
    subclasses.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stub = PrefixServiceStub(connection.channel)

    async def put(
        self,
        name: str,
        *,
        text: str | None = None,
        messages: Iterable[Message] | None = None,
        tools_json: Sequence[str] = (),
        models: Sequence[str] = (),
        warm: bool = True,
    ) -> Prefix:
        """Keeps a new version.

        Args:
            name: of the prefix.
            text: what stands before a prompt; or
            messages: system and developer turns that stand before a chat.
            tools_json: tools that stand before a chat, with `messages`.
            models: for whose workers it is computed; none: those that the key may use.
            warm: compute it now, in the background.
        """
        if (text is None) == (messages is None):
            raise ValueError("give exactly one of text and messages")
        request = wire.PutPrefixRequest(name=name, models=models, keep_cold=not warm)
        if text is not None:
            request.text = text
        else:
            request.chat.CopyFrom(chat_input(messages or (), tools_json))
        return prefix_of((await self._connection.call(self._stub.PutPrefix, request)).prefix)

    async def get(self, name: str, *, version: int = 0) -> Prefix:
        """Reads one version; 0 is the newest."""
        request = wire.GetPrefixRequest(name=name, version=version)
        return prefix_of((await self._connection.call(self._stub.GetPrefix, request)).prefix)

    def list(self, *, page_size: int = 100) -> AsyncIterator[Prefix]:
        """Every version of all of the tenant's, without their content."""

        async def fetch(token: str) -> tuple[Iterable[Prefix], str]:
            request = wire.ListPrefixesRequest(page_size=page_size, page_token=token)
            response = await self._connection.call(self._stub.ListPrefixes, request)
            return map(prefix_of, response.prefixes), response.next_page_token

        return all_pages(fetch)

    async def warm(self, name: str, *, version: int = 0) -> tuple[Warmth, ...]:
        """Computes one version on every worker of its models; charged as requests are."""
        request = wire.WarmPrefixRequest(name=name, version=version)
        response = await self._connection.call(self._stub.WarmPrefix, request)
        return tuple(map(warmth_of, response.warmths))

    async def delete(self, name: str, *, version: int = 0) -> None:
        """Removes one version; 0 removes all."""
        request = wire.DeletePrefixRequest(name=name, version=version)
        await self._connection.call(self._stub.DeletePrefix, request)
