"""How a model is loaded by llama.cpp on this processor."""

from pathlib import Path
from typing import Any

_CPUINFO = Path("/proc/cpuinfo")


def model_params(library: Any) -> Any:
    """llama.cpp's own defaults, but for its kernels for AMX.

    Those of 0.3.36 end the process on `ldtilecfg`, seen on an Intel Xeon under a hypervisor.
    Without them it computes with AVX-512.
    """
    params = library.llama_model_default_params()
    if _CPUINFO.is_file() and "amx_tile" in _CPUINFO.read_text():
        params.use_extra_bufts = False
    return params
