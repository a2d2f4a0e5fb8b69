"""The clock of leases: it runs on while the machine sleeps."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_us() -> int:
    """Microseconds since an arbitrary start.

    `time.monotonic` stands still while Linux is suspended: a scheduler on a laptop or a
    snapshot would believe after hours that its lease is fresh.
    """
    return time.clock_gettime_ns(_CLOCK) // 1_000
