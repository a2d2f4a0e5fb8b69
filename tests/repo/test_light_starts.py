"""What a process imports when it starts: each needs a fraction of a second and no more memory."""

import subprocess
import sys

import pytest

COMPUTING = {"torch", "numpy", "transformers", "triton"}
SERVING = {"grpc", "uvicorn", "starlette", "cryptography", "opentelemetry.sdk", "pydantic"}
STORING = {"sqlalchemy", "alembic", "redis"}


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("weir_gateway.__main__", COMPUTING),
        ("weir_ratelimiter.__main__", COMPUTING),
        ("weir_scheduler.__main__", COMPUTING | STORING),
        ("weir_worker.__main__", COMPUTING | STORING),
        ("weir_worker.engine.process", COMPUTING | STORING | SERVING),
        ("weir_cli.app", COMPUTING | STORING),
    ],
)
def test_a_process_imports_nothing_that_another_needs(module: str, needless: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert needless & set(done.stdout.split()) == set()
