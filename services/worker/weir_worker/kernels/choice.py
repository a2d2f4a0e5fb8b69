"""Whether the compiled kernels are used, and their build, which goes on while torch is imported."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from weir_core.errors import Reason, WeirError
from weir_worker.kernels.build import KernelsUnavailable, build_widest
from weir_worker.kernels.processor import Level

if TYPE_CHECKING:  # a build needs no torch
    from weir_worker.kernels.library import Kernels

logger = logging.getLogger(__name__)

KernelsMode = Literal["auto", "off", "required"]
Built = Future[tuple[Path, Level]]

# The first start on a machine may take that much longer; it takes about 3 s of a free core.
BUILD_TIMEOUT_S = 60.0


def start_build(mode: KernelsMode, *, timeout_s: float = BUILD_TIMEOUT_S) -> Built | None:
    """Find the library for this processor, or compile it, in a thread; None: not wanted."""
    if mode == "off":
        return None
    executor = ThreadPoolExecutor(1, "kernels")
    built = executor.submit(build_widest, timeout_s=timeout_s)
    executor.shutdown(wait=False)
    return built


def load_kernels(mode: KernelsMode, built: Built | None = None) -> "Kernels | None":
    """The kernels for this processor; None: torch computes.

    Args:
        mode: `auto` goes on without what cannot be had.
        built: what `start_build` returned; None: built here.

    Raises:
        WeirError: they are required and cannot be had.
    """
    if mode == "off":
        return None
    from weir_worker.kernels.library import Kernels

    try:
        # A build ends by its own bound; this one is for a thread that never ran.
        if built is not None:
            return Kernels(*built.result(3 * BUILD_TIMEOUT_S))
        return Kernels(*build_widest(timeout_s=BUILD_TIMEOUT_S))
    except (KernelsUnavailable, TimeoutError) as error:
        if mode == "required":
            message = f"kernels are required and cannot be had: {error}; set kernels to 'auto'"
            raise WeirError(Reason.ENGINE_FAILED, message) from error
        logger.warning("computing without compiled kernels: %s", error)
        return None
