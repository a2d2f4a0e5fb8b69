"""A look at what each KV block holds, a part of it with each output."""

from weir_worker.engine.events import KvFrame, StepOutput
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.kv_scan import KvScan

# Blocks looked at with a step, half a millisecond, and at a time while nothing is to be done.
_A_STEP, _IDLE = 2_048, 16_384
# After longer steps more: one for so long a time, of which it takes a sixteenth.
_EVERY_US = 4


class KvLook:
    """At most one goes on; the output with which it is whole has it."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._scan: KvScan | None = None

    @property
    def goes_on(self) -> bool:
        """Whether one was asked for that is not whole yet."""
        return self._scan is not None

    def begin(self) -> None:
        """Look, unless one goes on."""
        self._scan = self._scan or KvScan(self._pool.blocks)

    def add_to(self, output: StepOutput, step_us: int | None) -> StepOutput:
        """Go on after a step of that time, or after none."""
        scan = self._scan
        most = _IDLE if step_us is None else max(_A_STEP, step_us // _EVERY_US)
        if scan is not None and scan.advance(most):
            self._scan = None
            columns = (scan.lengths, scan.states, scan.owners, scan.references)
            output.kv = KvFrame(scan.tenants, *(column.tobytes() for column in columns))
        return output
