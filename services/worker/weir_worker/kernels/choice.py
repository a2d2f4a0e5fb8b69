"""Whether the compiled kernels are used."""

import logging
from typing import Literal

from weir_core.errors import Reason, WeirError
from weir_worker.kernels.build import KernelsUnavailable, build
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.processor import best_level, cpu_flags

logger = logging.getLogger(__name__)

KernelsMode = Literal["auto", "off", "required"]

# A start may take that much longer, once for a machine; it takes about 3 s of a free core.
_BUILD_TIMEOUT_S = 60.0


def load_kernels(mode: KernelsMode, *, timeout_s: float = _BUILD_TIMEOUT_S) -> Kernels | None:
    """The kernels for this processor, compiled if they are not yet; None: torch computes.

    Raises:
        WeirError: they are required and cannot be had.
    """
    if mode == "off":
        return None
    try:
        level = best_level(cpu_flags())
        if level is None:
            raise KernelsUnavailable("they need Linux on x86-64 with AVX2 and FMA")
        return Kernels(build(level, timeout_s=timeout_s), level)
    except KernelsUnavailable as error:
        if mode == "required":
            message = f"kernels are required and cannot be had: {error}; set kernels to 'auto'"
            raise WeirError(Reason.ENGINE_FAILED, message) from error
        logger.warning("computing without compiled kernels: %s", error)
        return None
