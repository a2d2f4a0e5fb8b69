"""What must and must not lie in the repository."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SERVICES = ("gateway", "ratelimiter", "scheduler", "worker")
GENERATED = "libs/weir_client/weir/"
NEVER = (
    "__pycache__",
    ".egg-info",
    ".venv/",
    ".pyc",
    ".so",
    ".log",
    ".whl",
    ".gguf",
    ".safetensors",
    "dist/",
    "build/",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".coverage",
)
_LARGEST_BYTES = 400_000


@pytest.fixture(scope="module")
def tracked(repo_root: Path) -> list[str]:
    """Paths of the files that git tracks."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repo_root, capture_output=True, text=True, timeout=30
    )
    if listing.returncode:
        pytest.skip("this is no git checkout")
    return [path for path in listing.stdout.split("\0") if path and (repo_root / path).exists()]


def test_nothing_built_or_downloaded_is_tracked(tracked: list[str]) -> None:
    assert [path for path in tracked if any(part in f"/{path}" for part in NEVER)] == []


def test_no_tracked_file_is_large(tracked: list[str], repo_root: Path) -> None:
    sizes = {path: (repo_root / path).stat().st_size for path in tracked}
    assert {path: size for path, size in sizes.items() if size > _LARGEST_BYTES} == {}


def test_generated_code_lies_in_one_place(tracked: list[str]) -> None:
    generated = [path for path in tracked if "_pb2" in path]
    assert generated
    assert [path for path in generated if not path.startswith(GENERATED)] == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_its_entry_point_and_its_page(service: str, repo_root: Path) -> None:
    package = repo_root / "services" / service / f"weir_{service}"
    assert (package / "__main__.py").is_file()
    assert (package / "py.typed").is_file()
    assert (repo_root / "services" / service / "README.md").is_file()


def test_the_contracts_pass_buf(repo_root: Path) -> None:
    """Names, layout, a comment on every service, method, message and enum."""
    buf = Path(sys.executable).with_name("buf")
    for command in (["lint"], ["format", "--diff", "--exit-code"]):
        done = subprocess.run(
            [buf, *command], cwd=repo_root, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_domain_code_imports_no_grpc(repo_root: Path) -> None:
    """Folders whose code decides: no grpc, no clock but the one that is passed in."""
    domains = [
        *(repo_root / "services" / "ratelimiter" / "weir_ratelimiter" / "domain").rglob("*.py"),
        *(repo_root / "services" / "scheduler" / "weir_scheduler" / "policies").rglob("*.py"),
        *(repo_root / "services" / "scheduler" / "weir_scheduler" / "queues").rglob("*.py"),
        *(repo_root / "services" / "worker" / "weir_worker" / "kv").rglob("*.py"),
    ]
    assert domains
    wrong = {
        f"{path.relative_to(repo_root)} imports {name}"
        for path in domains
        for name in _imports(path) & {"grpc", "time", "socket", "asyncio"}
    }
    assert wrong == set()


def test_versions_agree(repo_root: Path) -> None:
    root = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    client_file = repo_root / "libs" / "weir_client" / "pyproject.toml"
    client = tomllib.loads(client_file.read_text(encoding="utf-8"))
    version = root["project"]["version"]
    assert client["project"]["version"] == version
    assert f"tokenweir-client=={version}" in root["project"]["dependencies"]


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names
