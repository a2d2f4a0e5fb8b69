"""`python -m weir_worker.kernels`: compile the kernels now, so that no start has to."""

import sys

from weir_worker.kernels.build import KernelsUnavailable, build_widest
from weir_worker.kernels.choice import BUILD_TIMEOUT_S


def main() -> int:
    """Returns the exit code."""
    try:
        path, _ = build_widest(timeout_s=5 * BUILD_TIMEOUT_S)
    except KernelsUnavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
