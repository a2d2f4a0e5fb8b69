"""`weir prefixes`: named beginnings of prompts of the tenant whose key is used."""

import json
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
import yaml

from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage
from weir.gateway.v1.prefix_service_pb2 import (
    DeletePrefixRequest,
    GetPrefixRequest,
    ListPrefixesRequest,
    Prefix,
    PrefixWarmth,
    PutPrefixRequest,
    WarmPrefixRequest,
)
from weir.gateway.v1.prefix_service_pb2_grpc import PrefixServiceStub
from weir_cli.caller_door import DEFAULT_URL, Ca, Key, Url, call_once, list_all
from weir_cli.directory_text import Form, Format, Printed, print_forms
from weir_cli.errors import CommandError

app = typer.Typer(help="Beginnings of prompts, computed beforehand.", no_args_is_help=True)

_COLUMNS = ("name", "version", "models", "created")
_WARM_COLUMNS = ("model", "worker_id", "prompt_tokens", "time")
_WARM_S = 600.0

Name = Annotated[str, typer.Argument(help="Name of a prefix.")]
Version = Annotated[int, typer.Option(min=0, help="Version; 0: the newest.")]


@app.command()
def put(
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Text; or `.yaml` or `.json` with `messages` and `tools` in OpenAI's form.",
        ),
    ],
    model: Annotated[
        list[str] | None, typer.Option(help="For whose workers; again for several. None: all.")
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Do not compute it now.")] = False,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Keep a new version, and have it computed on workers."""
    request = PutPrefixRequest(name=name, models=model or [], keep_cold=cold)
    _read(file, request)
    answer = call_once(url, key, ca, lambda channel: _stub(channel).PutPrefix, request)
    print_forms(_form(answer.prefix), output, _COLUMNS)


@app.command("list")
def list_prefixes(
    output: Printed = Format.TABLE, url: Url = DEFAULT_URL, key: Key = "", ca: Ca = None
) -> None:
    """List every version."""

    request = ListPrefixesRequest()
    found = list_all(url, key, ca, lambda channel: _stub(channel).ListPrefixes, request, "prefixes")
    print_forms([_form(one) for one in found], output, _COLUMNS)


@app.command()
def show(
    name: Name,
    version: Version = 0,
    output: Printed = Format.YAML,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Show one version, with its content and where it was computed."""
    request = GetPrefixRequest(name=name, version=version)
    answer = call_once(url, key, ca, lambda channel: _stub(channel).GetPrefix, request)
    print_forms(_form(answer.prefix), output, _COLUMNS)


@app.command()
def warm(
    name: Name,
    version: Version = 0,
    output: Printed = Format.TABLE,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Compute it on every worker of its models: requests of class batch, which are charged."""
    request = WarmPrefixRequest(name=name, version=version)
    answer = call_once(url, key, ca, lambda channel: _stub(channel).WarmPrefix, request, _WARM_S)
    found = answer.warmths
    print_forms([_warmth(one) for one in found], output, _WARM_COLUMNS)


@app.command()
def delete(
    name: Name,
    version: Annotated[int, typer.Option(min=0, help="Version; 0: all.")] = 0,
    url: Url = DEFAULT_URL,
    key: Key = "",
    ca: Ca = None,
) -> None:
    """Remove one version, or all."""
    request = DeletePrefixRequest(name=name, version=version)
    call_once(url, key, ca, lambda channel: _stub(channel).DeletePrefix, request)
    print(f"{name}@{version} is deleted" if version else f"{name} is deleted")


def _read(file: Path, request: PutPrefixRequest) -> None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None
    if file.suffix not in (".yaml", ".yml", ".json"):
        request.text = text
        return
    try:
        request.chat.CopyFrom(_chat(yaml.safe_load(text)))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        raise CommandError(
            f"{file} must hold `messages`, each with role and content, and may hold `tools`"
        ) from None


def _chat(form: Form) -> ChatInput:
    messages = [
        ChatMessage(role=one["role"], content=one["content"], name=one.get("name", ""))
        for one in form["messages"]
    ]
    return ChatInput(
        messages=messages, tools_json=[json.dumps(one) for one in form.get("tools", [])]
    )


def _stub(channel: grpc.aio.Channel) -> Any:
    return PrefixServiceStub(channel)


def _form(prefix: Prefix) -> Form:
    form: Form = {
        "name": prefix.name,
        "version": prefix.version,
        "models": list(prefix.models),
        "created": prefix.create_time.ToJsonString(),
    }
    kind = prefix.WhichOneof("content")
    if kind == "text":
        form["text"] = prefix.text
    elif kind == "chat":
        form["messages"] = [
            {"role": one.role, "content": one.content} | ({"name": one.name} if one.name else {})
            for one in prefix.chat.messages
        ]
        form["tools"] = [json.loads(text) for text in prefix.chat.tools_json]
    if prefix.warmths:
        form["warmths"] = [_warmth(one) for one in prefix.warmths]
    return form


def _warmth(warmth: PrefixWarmth) -> Form:
    return {
        "model": warmth.model,
        "worker_id": warmth.worker_id,
        "prompt_tokens": warmth.prompt_tokens,
        "time": warmth.time.ToJsonString(),
    }
