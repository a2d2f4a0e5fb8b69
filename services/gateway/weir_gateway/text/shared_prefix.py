"""Where the part of a rendered chat ends that all requests of a tenant may share.

The leading system messages and tools are rendered twice with different user turns behind them;
what both renderings begin with depends on no user's text. Learned once for each head of each
tenant and checked against every prompt. Prompts are made on several threads.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from weir_core.errors import WeirError
from weir_gateway.text.chat import Chat

# They differ in the first and in the last character, whatever a template trims.
_PROBES = ("A b c", "X y z")
_PER_TENANT = 64
_TENANTS = 1_024


@dataclass(frozen=True, slots=True)
class _Head:
    length: int
    digest: bytes


class SharedPrefixes:
    """Lengths of shared prefixes, characters; bounded, least recently used out first.

    Args:
        render: the template.
    """

    def __init__(self, render: Callable[[Chat], str]) -> None:
        self._render = render
        self._tenants: OrderedDict[str, OrderedDict[bytes, _Head]] = OrderedDict()
        self._lock = Lock()

    def length(self, tenant_id: str, chat: Chat, rendered: str) -> int:
        """Leading characters of `rendered` that hold no user's text; 0 when unknown."""
        head = self._head(tenant_id, chat.head())
        if _digest(rendered[: head.length]) != head.digest:
            return 0
        return head.length

    def _head(self, tenant_id: str, chat: Chat) -> _Head:
        name = _name(chat)
        with self._lock:
            heads = self._heads_of(tenant_id)
            known = heads.get(name)
            if known is not None:
                heads.move_to_end(name)
                return known
        learned = self._learn(chat)
        with self._lock:
            heads = self._heads_of(tenant_id)
            heads[name] = learned
            if len(heads) > _PER_TENANT:
                heads.popitem(last=False)
        return learned

    def _heads_of(self, tenant_id: str) -> OrderedDict[bytes, _Head]:
        heads = self._tenants.get(tenant_id)
        if heads is None:
            heads = self._tenants[tenant_id] = OrderedDict()
            if len(self._tenants) > _TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(tenant_id)
        return heads

    def _learn(self, chat: Chat) -> _Head:
        try:
            one, other = [self._render(chat.with_user(probe)) for probe in _PROBES]
        except WeirError:
            one = other = ""
        shared = _common_beginning(one, other)
        return _Head(len(shared), _digest(shared))


def _common_beginning(one: str, other: str) -> str:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:at]
    return min(one, other, key=len)


def _name(chat: Chat) -> bytes:
    if not chat.messages and not chat.tools:
        return b""
    parts = [[message.role, message.name, message.content] for message in chat.messages]
    text = json.dumps([parts, [dict(tool) for tool in chat.tools]])
    return hashlib.sha256(text.encode()).digest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()
