"""OpenVINO GenAI's continuous batching as a runner: ids in, ids out; scheduling and sampling are the library's own.

The library runs in a process of its own, `openvino_process`. A step lets it make one token for every sequence that has
joined, or a part of a new one's prompt. Lives in the engine's thread.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from generation.engine.base import RunnerLostError, Sampled
from generation.engine.sequence import Chunk, Sequence
from generation.engine.weights import Weights
from generation.exceptions import EngineError
from generation.output import IdLogprobs

#: Positions of one block of the library's KV memory on a CPU.
BLOCK = 32
#: What the library must be told to compute with a type throughout; by itself it takes 8 bits where it can.
PRECISION: dict[Weights, dict[str, Any]] = {
    Weights.F32: {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    },
    Weights.BF16: {"INFERENCE_PRECISION_HINT": "bf16"},
}
#: How long the process may take to end by itself.
END_TIMEOUT_S = 3
PROJECT = Path(__file__).parents[2]


class OpenvinoRunner:
    """Runs at most ``max_sequences``. See `generation.engine.base.Runner`."""

    def __init__(
        self,
        model: Path,
        *,
        context_length: int,
        vocab_size: int,
        max_sequences: int,
        kv_tokens: int,
        prefill_chunk: int,
        weights: Weights,
        threads: int,
    ) -> None:
        """``model`` is a GGUF file or an OpenVINO folder; one step computes up to ``prefill_chunk`` prompt ids.

        ``weights`` f32 or bf16 says what to compute with; else it is what the library finds fastest.
        Raises EngineError when the library cannot load the model.
        """
        self.kv_tokens = kv_tokens
        self.context_length = min(context_length, kv_tokens)
        self.max_batch = max_sequences
        self.kv_bytes = 0
        self._vocab_size = vocab_size
        self._numbers = itertools.count(1)
        self._joined: dict[Sequence, int] = {}
        self._process, self._connection = _start()
        options = pipeline_options(
            max_sequences=max_sequences,
            kv_tokens=kv_tokens,
            prefill_chunk=prefill_chunk,
            weights=weights,
            threads=threads,
        )
        try:
            loaded = self._ask(str(model.absolute()), options)
        except RunnerLostError as exc:
            self.close()
            raise EngineError(str(exc)) from exc
        self.kv_bound_bytes, self._version = loaded

    @property
    def summary(self) -> str:
        return (
            f"{self.max_batch} sequences at once, {self.context_length:,} positions each and {self.kv_tokens:,} "
            f"together, OpenVINO {self._version.partition('-')[0]}, "
            f"KV memory at most {self.kv_bound_bytes / 1e6:.1f} MB"
        )

    def known(self, prompt_ids: list[int]) -> int | None:
        return None

    def join(self, sequence: Sequence) -> int:
        if not all(0 <= token_id < self._vocab_size for token_id in sequence.prompt_ids):
            raise EngineError(f"The prompt has ids that are not among the model's {self._vocab_size} tokens.")
        number = next(self._numbers)
        longest = self.context_length - len(sequence.prompt_ids)
        self._ask("join", number, sequence.prompt_ids, _generation_config(sequence, longest=longest))
        self._joined[sequence] = number
        return 0

    def step(self, chunks: list[Chunk]) -> list[Sampled | None]:
        made = self._ask("step", [self._joined[chunk.sequence] for chunk in chunks])
        return [token and _sampled(chunk.sequence, *token) for chunk, token in zip(chunks, made, strict=True)]

    def release(self, sequence: Sequence) -> None:
        number = self._joined.pop(sequence, None)
        if number is not None:
            self._ask("release", number)

    def close(self) -> None:
        self._end_process()

    def _ask(self, *request: Any) -> Any:
        """Let the process do one thing. EngineError when it concerns one sequence, else RunnerLostError."""
        try:
            self._connection.send(request)
            what, result, self.kv_bytes = self._connection.recv()
        except (EOFError, OSError) as exc:
            raise RunnerLostError(f"OpenVINO's process has ended ({self._end_process()}).") from exc
        if what == "refused":
            raise EngineError(result)
        if what == "lost":
            raise RunnerLostError(f"OpenVINO failed: {result}")
        return result

    def _end_process(self) -> int:
        """Return its exit status; it ends by itself when the socket closes, or is killed."""
        self._connection.close()
        try:
            return self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def pipeline_options(
    *, max_sequences: int, kv_tokens: int, prefill_chunk: int, weights: Weights, threads: int
) -> dict[str, dict[str, Any]]:
    """What `openvino_process.Batch` is made with."""
    return {
        "scheduler": {
            "max_num_seqs": max_sequences,
            # A sequence ends in the middle of a block, and begins one for the token after its last.
            "num_kv_blocks": -(-kv_tokens // BLOCK) + 2 * max_sequences,
            "max_num_batched_tokens": prefill_chunk + max_sequences,
            "dynamic_split_fuse": True,
            "enable_prefix_caching": True,
        },
        "properties": {"INFERENCE_NUM_THREADS": threads, **PRECISION.get(weights, {})},
    }


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "generation.engine.openvino_process", str(theirs.fileno())],
            # The server may have been started from anywhere.
            cwd=PROJECT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return process, Connection(ours.detach())


def _sampled(sequence: Sequence, token_id: int, logprob: float) -> Sampled:
    return Sampled(token_id=token_id, logprobs=IdLogprobs(logprob=logprob) if sequence.sampling.logprobs else None)


def _generation_config(sequence: Sequence, *, longest: int) -> dict[str, Any]:
    """What the library is to do. Why a sequence ends is decided from its ids: here it only must not end earlier."""
    sampling = sequence.sampling
    most = min(sampling.max_tokens or longest, longest)
    config: dict[str, Any] = {
        "max_new_tokens": most,
        "min_new_tokens": min(sampling.min_tokens, most),
        "stop_token_ids": set(sequence.end_ids | sequence.stop_ids),
        "ignore_eos": sampling.ignore_eos,
        "logprobs": int(sampling.logprobs),
        "repetition_penalty": sampling.repetition_penalty or 1.0,
        "presence_penalty": sampling.presence_penalty or 0.0,
        "frequency_penalty": sampling.frequency_penalty or 0.0,
        # A top-p of nothing leaves the likeliest token only.
        "do_sample": (sampling.temperature or 0.0) > 0 and sampling.top_p != 0,
    }
    if sequence.end_ids:
        config["eos_token_id"] = min(sequence.end_ids)
    if config["do_sample"]:
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        config |= {
            "temperature": sampling.temperature,
            "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
            "min_p": sampling.min_p or 0.0,
            "rng_seed": seed & 0xFFFF_FFFF_FFFF_FFFF,
        }
        if sampling.top_k is not None and sampling.top_k > 0:
            config["top_k"] = sampling.top_k
    return config
