from weir_worker.kernels.choice import KernelsMode, load_kernels
from weir_worker.kernels.library import Kernels

__all__ = ["Kernels", "KernelsMode", "load_kernels"]
