"""How tests are spread over the processes of pytest-xdist (`make test` has two).

A file is one unit, as its tests share what its fixtures made. Files that share something slow
are one unit together.
"""

from pathlib import PurePath

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

# They ask one stack of `tests/e2e/conftest.py`.
_TOGETHER = {
    "tests/doctor/test_fault.py": "tests/doctor/test_diagnosis.py",
    "tests/doctor/test_top.py": "tests/doctor/test_tenants.py",
    "tests/e2e/test_stubs_alone.py": "tests/e2e/test_openai_sdk.py",
    "tests/e2e/test_openai_forms.py": "tests/e2e/test_openai_sdk.py",
    "tests/e2e/test_chaos.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_job_kill.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_one_charge.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_quota.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_reconcile.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_response_kill.py": "tests/e2e/test_abort.py",
    "tests/e2e/test_trace.py": "tests/e2e/test_lesser_forms.py",
    "tests/e2e/test_worker_loss.py": "tests/e2e/test_prefix_placement.py",
}

# Folders that share one stack and one browser.
_WHOLE = ("tests/console",)

# Begun first, so that no process is left alone with one of them in the end.
_LONG = (
    "tests/cli/test_up.py",
    "tests/doctor",
    "tests/e2e",
    "tests/console",
    "tests/worker/numerics/test_triton_attention.py",
    "tests/worker/numerics/test_rotation.py",
    "tests/worker/kernels",
    "tests/worker/engine/test_default_model.py",
    "tests/worker/engine/test_kv_soak.py",
    "tests/cli/calibration",
    "tests/ratelimiter",
    "tests/docs",
)


class ByUnit(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole units to processes, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


def is_one(config: pytest.Config) -> bool:
    """Whether this is one of several processes, not the one that was started."""
    return hasattr(config, "workerinput")


def begins(item: pytest.Item) -> tuple[int, str]:
    """Sorts units: the long ones to the front, the others by path."""
    unit = _unit(item.nodeid)
    ranks = [rank for rank, long in enumerate(_LONG) if PurePath(unit).is_relative_to(long)]
    return min(ranks, default=len(_LONG)), unit


def _unit(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    whole = next((one for one in _WHOLE if PurePath(file).is_relative_to(one)), file)
    return _TOGETHER.get(whole, whole)
