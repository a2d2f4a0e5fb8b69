"""What the commands of shell blocks do here."""

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from unittest import mock

import typer

from tests.cli.command import Ended, weir
from tests.docs.blocks import ROOT
from tests.docs.forwarded import Called
from weir_cli.app import app
from weir_core.config import ServiceSettings, load_settings
from weir_core.errors.startup import StartupError

_OURS = ("WEIR_", "TOKENWEIR_", "OTEL_")
# They serve or watch until Ctrl-C, or measure for minutes: here their arguments alone are checked.
# `make soak` starts `weir up`.
_SERVES = ("up", "top", "calibrate")
_SOAK_S = 300


class Commands:
    """Carries out what blocks call."""

    def __init__(self, *, really: bool = False) -> None:
        self._really = really

    def __call__(self, called: Called) -> Ended:
        environment = {k: v for k, v in called.environment.items() if k.startswith(_OURS)}
        with contextlib.chdir(called.folder), mock.patch.dict(os.environ, environment):
            if called.name == "weir":
                return self._weir(called)
            if called.name == "make":
                return self._make(called)
            return _python(called)

    def _weir(self, called: Called) -> Ended:
        command, *rest = called.arguments or [""]
        looks_once = command == "top" and "--once" in rest
        if command in _SERVES and not looks_once and not {"-h", "--help"} & set(rest):
            return self._served(command, rest, called.folder)
        return weir(*called.arguments, given=called.given)

    def _make(self, called: Called) -> Ended:
        variables = dict(one.split("=", 1) for one in called.arguments if "=" in one)
        targets = [one for one in called.arguments if "=" not in one]
        plan = subprocess.run(
            ["make", "-n", *called.arguments], cwd=ROOT, capture_output=True, text=True, timeout=30
        )
        if plan.returncode or targets != ["run"]:
            return Ended(plan.returncode, "", plan.stderr)
        return self._served("up", shlex.split(variables.get("ARGS", "")), called.folder)

    def _served(self, command: str, arguments: list[str], folder: str) -> Ended:
        ended = checked(command, arguments)
        # Models and directory files are the reader's own.
        startable = command == "up" and not {"--model", "--directory"} & set(arguments)
        if ended.returncode or not self._really or not startable:
            return ended
        return _started(arguments, folder)


def checked(command: str, arguments: Sequence[str]) -> Ended:
    """Whether a command would take its arguments; it is not begun."""
    found = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        try:
            found.make_context(f"weir {command}", list(arguments), resilient_parsing=False)
        except Exception as error:
            return Ended(2, "", f"weir {command} {shlex.join(arguments)}: {error}")
        except SystemExit as left:
            return Ended(int(left.code or 0), "", stderr.getvalue())
    return Ended(0, "", "")


def _started(arguments: Sequence[str], folder: str) -> Ended:
    """Starts a stack for one answer, on free ports, of the model that computes nothing."""
    command = [sys.executable, "-m", "weir_cli", "up", *arguments]
    command += [one for one in ("--once", "--null") if one not in arguments]
    command += [] if "--port" in arguments else ["--port", "0"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SOAK_S, env=os.environ
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def _python(called: Called) -> Ended:
    arguments = list(called.arguments)
    if arguments[:1] == ["-m"] and arguments[1].startswith("weir_"):
        return _service(arguments[1], arguments[2:])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=called.folder,
        input=called.given,
        capture_output=True,
        text=True,
        timeout=60,
        env=called.environment,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def _service(module: str, arguments: list[str]) -> Ended:
    """Reads the settings as the service would, and ends before it serves."""
    settings = settings_class(module)
    if settings is None:
        return Ended(1, "", f"python -m {module} is no service")
    try:
        load_settings(settings, arguments)
    except StartupError as error:
        return Ended(1, "", str(error))
    return Ended(0, "", "")


def settings_class(module: str) -> type[ServiceSettings] | None:
    """The settings of a service by the name of its package."""
    if not (ROOT / "services" / module.removeprefix("weir_") / module / "settings.py").is_file():
        return None
    found = vars(import_module(f"{module}.settings")).values()
    return next(
        one
        for one in found
        if isinstance(one, type) and issubclass(one, ServiceSettings) and one is not ServiceSettings
    )
