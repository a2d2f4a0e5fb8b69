"""What `weir up` prints once everything runs."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

_QUESTION = "Name three colours."
_NO_KEY = "<your API key>"


@dataclass(frozen=True, slots=True)
class Welcome:
    """Addresses and names of a running stack.

    Attributes:
        http: `host:port` of the gateway's HTTP door.
        grpc: `host:port` of its gRPC door.
        model: name of the model.
        key: an API key; empty when none is known, then a placeholder is shown.
        new_key: the key was made for this run and is shown here alone.
        state: folder with configuration and logs.
        metrics: `host:port` of each service's metrics, by name.
        more_models: names of the other models.
        has_template: `model` can chat; one that cannot is asked for completions.
        ca: what clients must trust; None: everything is plain.
        admin_secret: opens the console and administration; empty: nothing is said of them.
    """

    http: str
    grpc: str
    model: str
    key: str
    new_key: bool
    state: Path
    metrics: dict[str, str]
    more_models: tuple[str, ...] = ()
    has_template: bool = True
    ca: Path | None = None
    admin_secret: str = ""

    def text(self) -> str:
        """The whole text; its first URL is the base for OpenAI clients."""
        return "\n".join(
            [
                "",
                f"OpenAI base   {self.url}/v1",
                f"gRPC          {self.grpc}",
                f"API key       {self._key}{'   (shown once)' if self.new_key else ''}",
                f"model         {self.model}",
                *(f"and model     {name}" for name in self.more_models),
                *self._console,
                f"state, logs   {self.state}",
                *((f"CA            {self.ca}",) if self.ca else ()),
                *(f"metrics       {self._metrics_url(name)}" for name in self.metrics),
                "",
                "Ask by HTTP:",
                "",
                self.curl(),
                "",
                "Ask by gRPC, with nothing but the generated stubs:",
                "",
                self.snippet(),
                "",
                *(("Or talk to it:", "", self.chat(), "") if self.has_template else ()),
                "For the examples in README.md and docs/, and for the commands:",
                "",
                self.exports(),
                "",
            ]
        )

    def exports(self) -> str:
        """A command line that says to examples and commands where the stack is."""
        values = {
            "WEIR_URL": self.url,
            "WEIR_TARGET": self.grpc,
            "WEIR_API_KEY": self._key,
            "WEIR_MODEL": self.model,
            "WEIR_STATE_DIR": str(self.state.absolute()),
        }
        if self.ca:
            values["WEIR_TLS_CA"] = str(self.ca)
        return "export " + " ".join(f"{name}={shlex.quote(one)}" for name, one in values.items())

    def curl(self) -> str:
        """A command line that asks a question by HTTP."""
        messages = [{"role": "user", "content": _QUESTION}]
        asked = {"messages": messages} if self.has_template else {"prompt": _QUESTION}
        body = {"model": self.model, **asked, "max_tokens": 48}
        path = "chat/completions" if self.has_template else "completions"
        return (
            f"curl -s {self._trust}{self.url}/v1/{path} "
            f"-H 'Authorization: Bearer {self._key}' "
            f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
        )

    def snippet(self) -> str:
        """A command line that runs a Python program on the generated stubs."""
        chat = 'chat=wire.ChatInput(messages=[wire.ChatMessage(role="user", content=question)])'
        asked = chat if self.has_template else "prompt=question"
        program = f"""\
import grpc
from weir.gateway.v1 import inference_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub

question = "{_QUESTION}"
request = wire.GenerateRequest(
    model="{self.model}",
    {asked},
    max_new_tokens=48,
    stream=True,
)
with {self._open} as channel:
    metadata = [("authorization", "Bearer {self._key}")]
    for response in InferenceServiceStub(channel).Generate(request, metadata=metadata):
        print(response.delta.text, end="", flush=True)
print()"""
        return f"{shlex.quote(sys.executable)} - <<'EOF'\n{program}\nEOF"

    def chat(self) -> str:
        """A command line that opens a conversation."""
        weir = shlex.quote(f"{sys.executable}") + " -m weir_cli"
        key, model = shlex.quote(self._key), shlex.quote(self.model)
        ca = f" --ca {shlex.quote(str(self.ca))}" if self.ca else ""
        return f"WEIR_API_KEY={key} {weir} chat --url {self.grpc} --model {model}{ca}"

    @property
    def url(self) -> str:
        """Of the HTTP door."""
        return f"{'https' if self.ca else 'http'}://{self.http}"

    @property
    def _console(self) -> tuple[str, ...]:
        if not self.admin_secret:
            return ()
        return (
            f"console       {self.url}/console/",
            f"  sign in     {self.admin_secret}   (or the API key: its tenant alone)",
        )

    @property
    def _trust(self) -> str:
        return f"--cacert {shlex.quote(str(self.ca))} " if self.ca else ""

    @property
    def _open(self) -> str:
        if self.ca is None:
            return f'grpc.insecure_channel("{self.grpc}")'
        trust = f"grpc.ssl_channel_credentials(open({str(self.ca)!r}, 'rb').read())"
        return f'grpc.secure_channel("{self.grpc}", {trust})'

    @property
    def _key(self) -> str:
        return self.key or _NO_KEY

    def _metrics_url(self, name: str) -> str:
        scheme = "https" if self.ca and self.metrics[name] == self.http else "http"
        return f"{scheme}://{self.metrics[name]}/metrics   ({name})"
