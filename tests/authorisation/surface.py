"""Everything that can be called: each RPC of the contracts, each route of the HTTP door."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from google.protobuf import symbol_database
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from starlette.routing import BaseRoute, Mount, Route

import weir


@dataclass(frozen=True)
class Rpc:
    """One RPC by its descriptor."""

    method: MethodDescriptor

    @property
    def name(self) -> str:
        """`weir.gateway.v1.JobService/GetJob`."""
        return f"{self.service}/{self.method.name}"

    @property
    def service(self) -> str:
        return str(self.method.containing_service.full_name)

    @property
    def client_streaming(self) -> bool:
        return bool(self.method.client_streaming)

    @property
    def server_streaming(self) -> bool:
        return bool(self.method.server_streaming)

    def call(self, channel: Any, serialize: Any = None) -> Any:
        """The multicallable; takes a message, or bytes with `serialize=bytes`."""
        kind = "stream" if self.client_streaming else "unary"
        kind += "_stream" if self.server_streaming else "_unary"
        request, response = self.request_class, self.response_class
        return getattr(channel, kind)(
            f"/{self.name}",
            request_serializer=serialize or request.SerializeToString,
            response_deserializer=response.FromString,
        )

    @property
    def request_class(self) -> type[Message]:
        return message_class(self.method.input_type)

    @property
    def response_class(self) -> type[Message]:
        return message_class(self.method.output_type)


def message_class(descriptor: Any) -> type[Message]:
    """The generated class of a message."""
    found: type[Message] = symbol_database.Default().GetSymbol(descriptor.full_name)
    return found


def every_rpc() -> list[Rpc]:
    """Every RPC of every service in the generated stubs, in the order of their names."""
    found = [
        Rpc(method)
        for descriptor in _files()
        for service in descriptor.services_by_name.values()
        for method in service.methods
    ]
    return sorted(found, key=lambda rpc: rpc.name)


def every_route(app: Any) -> dict[str, set[str]]:
    """Path of each route of an ASGI application, with its methods; HEAD goes with GET."""
    found: dict[str, set[str]] = {}
    for path, methods in _routes("", _routes_of(app)):
        found.setdefault(path, set()).update(methods - {"HEAD"})
    return found


def _files() -> Iterator[Any]:
    for folder in weir.__path__:
        for path in sorted(Path(folder).rglob("*_pb2.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield import_module(".".join(("weir", *parts))).DESCRIPTOR


def _routes_of(app: Any) -> list[BaseRoute]:
    """Of the innermost application: middlewares name what they wrap `app`."""
    while not hasattr(app, "routes"):
        app = app.app
    routes: list[BaseRoute] = app.routes
    return routes


def _routes(prefix: str, routes: list[BaseRoute]) -> Iterator[tuple[str, set[str]]]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _routes(prefix + route.path, list(route.routes))
        elif isinstance(route, Route):
            # An endpoint that is a class of ours gets its methods from the route alone.
            yield prefix + route.path, set(route.methods or {"GET"})
        else:
            raise AssertionError(f"a kind of route that is not known here: {route!r}")
