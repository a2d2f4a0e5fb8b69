"""What callers do with their prefixes."""

from collections.abc import Sequence

from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.model_list import ModelList
from weir_gateway.prefixes.prefix import (
    Prefix,
    PrefixContent,
    Warmth,
    check_content,
    check_name,
    check_version,
    not_found,
    read_reference,
)
from weir_gateway.prefixes.shelf import PrefixShelf
from weir_gateway.prefixes.store import PrefixStore

MOST_MODELS = 8


class PrefixDesk:
    """Keeps, finds, uses and removes prefixes; see `weir_gateway.intake.named_prefix.Prefixes`.

    Args:
        store, models: see there.
        clock: wall time.
    """

    def __init__(self, store: PrefixStore, models: ModelList, clock: Clock) -> None:
        self._store = store
        self._shelf = PrefixShelf(store)
        self._models = models
        self._clock = clock

    async def put(
        self, caller: Caller, name: str, content: PrefixContent, models: Sequence[str]
    ) -> Prefix:
        """Keeps the next version of a prefix.

        Args:
            caller: whose.
            name, content: checked here.
            models: names or aliases; none for all that the caller may use.

        Raises:
            WeirError: INVALID_FIELD, MODEL_NOT_FOUND, STATE_OFF or STATE_UNAVAILABLE.
        """
        check_name(name)
        check_content(content)
        prefix = await self._store.put(
            caller.tenant_id,
            name,
            content,
            models=self._names_of(caller, models),
            api_key_id=caller.key_id,
            now_ms=self._clock.now_ms(),
        )
        self._shelf.forget(caller.tenant_id, name)
        return prefix

    async def get(self, caller: Caller, name: str, version: int) -> Prefix:
        """One version. Raises WeirError: NOT_FOUND and kin."""
        check_name(name)
        check_version(version)
        found = await self._store.find(caller.tenant_id, name, version)
        if found is None:
            raise not_found(_reference(name, version))
        return found

    async def page(self, caller: Caller, most: int, after: tuple[str, int] | None) -> list[Prefix]:
        """Versions of the caller's tenant; see `PrefixStore.page`."""
        return await self._store.page(caller.tenant_id, most, after)

    async def delete(self, caller: Caller, name: str, version: int) -> None:
        """Removes a version, or all. Raises WeirError: NOT_FOUND and kin."""
        check_name(name)
        check_version(version)
        gone = await self._store.delete(caller.tenant_id, name, version)
        self._shelf.forget(caller.tenant_id, name)
        if not gone:
            raise not_found(_reference(name, version))

    async def warmths(self, prefix: Prefix) -> list[Warmth]:
        """Where a prefix was computed."""
        return await self._store.warmths(prefix)

    async def applied(self, caller: Caller, request: GenerationRequest) -> GenerationRequest:
        """See `Prefixes`."""
        name, version = read_reference("prefix", request.prefix)
        prefix = await self._shelf.find(caller.tenant_id, name, version)
        if prefix is None:
            raise not_found(request.prefix)
        return prefix.content.before(request)

    def _names_of(self, caller: Caller, asked: Sequence[str]) -> list[str]:
        if len(asked) > MOST_MODELS:
            raise InvalidField("models", f"{len(asked)} models", f"at most {MOST_MODELS}")
        if asked:
            return sorted({self._models.one(caller, name).name for name in asked})
        names = sorted(info.name for info in self._models.of(caller))
        if len(names) > MOST_MODELS:
            raise InvalidField(
                "models",
                "empty",
                f"set: the key may use {len(names)} models, of which at most "
                f"{MOST_MODELS} are warmed",
            )
        return names


def _reference(name: str, version: int) -> str:
    return f"{name}@{version}" if version else name
