"""The client's wheel in an environment that has its declared dependencies and nothing else."""

import asyncio
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.gateway.harness import MODEL, Gateway, running_gateway

_CHECK = """
import sys
foreign = [n for n in sys.modules if n.split(".")[0] in {"weir_core", "weir_gateway", "torch"}]
assert not foreign, foreign
import weir_client
assert "site-packages" in weir_client.__file__, weir_client.__file__
try:
    import yaml
except ImportError:
    pass
else:
    raise AssertionError("the environment is not clean")
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Path:
    """Python of an environment with the wheel, and with links to what the wheel declares."""
    folder = tmp_path_factory.mktemp("alone")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run(
        [*build, "--wheel-dir", str(folder), str(repo_root / "libs/weir_client")],
        check=True,
        timeout=100,
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    (metadata,) = packages.glob("*.dist-info/METADATA")
    declared = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.MULTILINE)
    _link(packages, declared)
    return folder / "env" / "bin" / "python"


def _link(packages: Path, requirements: Iterable[str]) -> None:
    """What the requirements name, and what that needs, without their extras."""
    for line in requirements:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = distribution(requirement.name)
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            target = packages / Path(*file.parts)
            if file.parts[0] != ".." and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
        _link(packages, found.requires or ())


async def _run(python: Path, code: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(python),
        "-I",
        "-c",
        code,
        env={"PATH": os.environ["PATH"]} | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return out.decode()


def _environment(gateway: Gateway) -> dict[str, str]:
    return {
        "WEIR_TARGET": gateway.app.grpc_address,
        "WEIR_API_KEY": gateway.key.secret,
        "WEIR_MODEL": MODEL,
    }


async def test_the_readmes_example_runs_on_the_wheel_alone(
    alone: Path, repo_root: Path, tmp_path: Path
) -> None:
    page = (repo_root / "libs/weir_client/README.md").read_text()
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    async with running_gateway(tmp_path) as gateway:
        told = await _run(alone, example + _CHECK, **_environment(gateway))
        await gateway.at_rest()
    streamed, ended, whole = told.splitlines()
    assert streamed.startswith("t0 t1 ")
    assert re.fullmatch(r"length, \d+ tokens", ended)
    assert re.match(r"t0 t1 .* req_", whole)
