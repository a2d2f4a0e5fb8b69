"""`weir chat` as a user runs it, against a server that plays the gateway's door."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.cli.command import weir
from weir.common.v1.sampling_pb2 import FINISH_REASON_STOP
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1 import inference_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from weir_cli.certificate_authority import CertificateAuthority

Context = grpc.ServicerContext


class Parrot(InferenceServiceServicer):
    """Says how many turns it was sent and repeats the last."""

    def Generate(  # noqa: N802
        self, request: wire.GenerateRequest, context: Context
    ) -> Iterator[wire.GenerateResponse]:
        turns = request.chat.messages
        if turns[-1].content == "fail":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "prompt too long; use /reset")
        yield wire.GenerateResponse(accepted=wire.Accepted(request_id="req_1"))
        yield wire.GenerateResponse(delta=wire.Delta(text=f"{len(turns)} turns, "))
        yield wire.GenerateResponse(delta=wire.Delta(text=f"last {turns[-1].content}"))
        usage = Usage(prompt_tokens=7, cached_prompt_tokens=4, completion_tokens=2)
        end = wire.Finished(finish_reason=FINISH_REASON_STOP, usage=usage)
        yield wire.GenerateResponse(finished=end)

    def ListModels(  # noqa: N802
        self, request: wire.ListModelsRequest, context: Context
    ) -> wire.ListModelsResponse:
        return wire.ListModelsResponse(models=[wire.ModelInfo(name="parrot")])

    def Embed(  # noqa: N802
        self, request: wire.EmbedRequest, context: Context
    ) -> wire.EmbedResponse:
        return wire.EmbedResponse()

    def Tokenize(  # noqa: N802
        self, request: wire.TokenizeRequest, context: Context
    ) -> wire.TokenizeResponse:
        return wire.TokenizeResponse()

    def GetRequest(  # noqa: N802
        self, request: wire.GetRequestRequest, context: Context
    ) -> wire.GetRequestResponse:
        return wire.GetRequestResponse()


@pytest.fixture
def target() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    add_InferenceServiceServicer_to_server(Parrot(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait(5)


def chat(*arguments: str, given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weir_cli", "chat", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "WEIR_API_KEY": "k"},
    )


def test_turns_add_up_and_a_failed_one_is_not_kept(target: str) -> None:
    given = "one\nfail\ntwo\n/reset\nthree\n"
    said = chat("--url", target, "--system", "Be brief.", given=given)
    assert said.returncode == 0, said.stderr
    answers = [line for line in said.stdout.splitlines() if "turns" in line]
    assert answers == ["2 turns, last one", "4 turns, last two", "2 turns, last three"]
    assert said.stdout.count("[7 tokens in, 4 cached, 2 out]") == 3
    assert said.stderr == "\nerror: INVALID_ARGUMENT: prompt too long; use /reset\n"


@pytest.mark.parametrize(
    ("arguments", "key", "says"),
    [
        (["--url", "127.0.0.1:1"], "", "no API key; set WEIR_API_KEY or give --key"),
        (["--url", "http://127.0.0.1:8000/v1"], "k", "--url is 'http://127.0.0.1:8000/v1'"),
        (["--url", "127.0.0.1:1"], "k", "127.0.0.1:1: the gateway cannot be reached; is"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: list[str], key: str, says: str) -> None:
    refused = weir("chat", *arguments, WEIR_API_KEY=key)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: {says}")
    assert refused.stderr.count("\n") == 1


def test_a_door_without_tls_is_told_as_any_door_that_does_not_answer(
    target: str, tmp_path: Path
) -> None:
    ca = CertificateAuthority(tmp_path).certificate
    refused = weir("chat", "--url", target, "--ca", str(ca), WEIR_API_KEY="k")
    assert refused.returncode == 1
    assert "the gateway cannot be reached" in refused.stderr
    assert "does it want TLS (--ca)?" in refused.stderr
    assert "Ssl" not in refused.stderr
    assert "tls handshake" not in refused.stderr.lower()
