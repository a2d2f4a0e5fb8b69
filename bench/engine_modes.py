"""The ways in which the engine computes that are told apart by its figures."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bench.engine_alone import open_engine
from bench.samples import say
from weir_core.errors.startup import StartupError
from weir_worker.engine.client import EngineClient
from weir_worker.engine.config import EngineConfig

FP32 = "fp32"
FP32_KERNELS = "fp32_kernels"
INT8 = "int8"
KERNELS = "int8_kernels"
# Fastest first: parts that do not compare modes take the first one that starts.
FASTEST = (KERNELS, INT8, FP32)

_MODES: dict[str, dict[str, Any]] = {
    KERNELS: {"precision": "int8", "kernels": "required"},
    INT8: {"precision": "int8", "kernels": "off"},
    FP32: {"precision": "fp32", "kernels": "off"},
    FP32_KERNELS: {"precision": "fp32", "kernels": "required"},
}


def engine_config(model: str, mode: str, kv_memory_bytes: int) -> EngineConfig:
    """What an engine of this mode is started with."""
    return EngineConfig(model=model, device="cpu", kv_memory_bytes=kv_memory_bytes, **_MODES[mode])


@asynccontextmanager
async def open_mode(
    model: str, modes: Sequence[str], kv_memory_bytes: int
) -> AsyncIterator[tuple[str, EngineClient]]:
    """The first of `modes` that starts, with its name. Raises StartupError if none does."""
    async with AsyncExitStack() as stack:
        for mode in modes:
            try:
                config = engine_config(model, mode, kv_memory_bytes)
                engine = await stack.enter_async_context(open_engine(config))
            except StartupError as error:
                say(f"{mode}: not measured: {error}")
                continue
            yield mode, engine
            return
        raise StartupError(f"no mode of {', '.join(modes)} starts")
