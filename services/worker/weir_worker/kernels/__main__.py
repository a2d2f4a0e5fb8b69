"""`python -m weir_worker.kernels`: compile the kernels now, so that no start has to."""

import sys

from weir_worker.kernels.build import KernelsUnavailable, build
from weir_worker.kernels.choice import BUILD_TIMEOUT_S
from weir_worker.kernels.processor import best_level, cpu_flags


def main() -> int:
    """Returns the exit code."""
    level = best_level(cpu_flags())
    if level is None:
        sys.stderr.write("error: the kernels need Linux on x86-64 with AVX2 and FMA\n")
        return 1
    try:
        path = build(level, timeout_s=5 * BUILD_TIMEOUT_S)
    except KernelsUnavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
