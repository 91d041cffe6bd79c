"""The model in this process: chat template and tokenizer, the engine, and the text pipeline.

The tokenizer loads first (about 2 s), then the model, both in the background; requests are checked as soon as the
tokenizer is there and wait as queued while the model loads. Imports no torch: the engine's thread does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

from django.conf import settings

from generation.backends.base import Backend, BackendHealth, BackendState, DeltaStream, ModelCard
from generation.backends.local_stream import LocalStream
from generation.backends.local_text import LoadedText, checked_prompt, load_text
from generation.backends.response_format import constraint_for
from generation.engine.base import EngineState, Runner
from generation.engine.model_fetch import BUNDLED
from generation.engine.model_files import ModelFacts, find_model, read_facts
from generation.engine.openvino_model import UNSUPPORTED, find_openvino_model, load_openvino_runner
from generation.engine.torch_engine import TorchEngine
from generation.engine.weights import Weights
from generation.exceptions import BackendUnavailableError, InvalidRequestError, RateLimitError, ServerShutdownError
from generation.request import GenerationRequest

ENGINES = ("torch", "openvino")


class LocalBackend(Backend):
    """Serves one model from files.

    ``model`` is a folder, a GGUF file or a hub id; empty means the setting STREAMSITE_MODEL, and that empty the bundled
    model. ``max_sequences`` run at once, ``max_queue`` more wait, further ones are refused. ``kv_tokens`` is how many
    tokens of prompts and answers have room at once, 0 for the setting STREAMSITE_KV_TOKENS and that 0 for the engine's
    choice; the log and the health message say what memory that is. ``context_length`` lowers the model's own.
    ``weights`` is one of `Weights`; empty means the setting STREAMSITE_WEIGHTS. ``device`` is ``auto`` for the fastest
    here. ``threads`` 0 means one per CPU this process may use, at most 8. ``engine`` is ``torch`` or
    ``openvino``, empty for the setting STREAMSITE_ENGINE; the latter reads GGUF files and exported folders.
    """

    _SUPPORTED: ClassVar[frozenset[str]] = frozenset(
        {
            "frequency_penalty",
            "ignore_eos",
            "include_stop_str_in_output",
            "logit_bias",
            "logprobs",
            "max_completion_tokens",
            "max_tokens",
            "min_p",
            "min_tokens",
            "n",
            "presence_penalty",
            "repetition_penalty",
            "response_format",
            "seed",
            "stop",
            "temperature",
            "top_k",
            "top_logprobs",
            "top_p",
        }
    )

    def __init__(
        self,
        alias: str,
        *,
        model: str = "",
        max_sequences: int = 8,
        max_queue: int = 64,
        prefill_chunk: int = 256,
        context_length: int | None = None,
        kv_tokens: int = 0,
        weights: str = "",
        device: str = "auto",
        threads: int = 0,
        engine: str = "",
    ) -> None:
        super().__init__(alias)
        self._engine_name = engine or settings.STREAMSITE_ENGINE
        if self._engine_name not in ENGINES:
            raise ValueError(f"engine is {self._engine_name!r}; it must be one of {', '.join(ENGINES)}")
        for name, value in {"max_sequences": max_sequences, "prefill_chunk": prefill_chunk}.items():
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        if kv_tokens < 0:
            raise ValueError(f"kv_tokens is {kv_tokens}; it must be at least 1, or 0 for the engine's choice")
        self._model = model
        self._context_length = context_length
        self._weights = Weights(weights or settings.STREAMSITE_WEIGHTS)
        self._device = device
        self._threads = threads or _usable_cpus()
        self._max_sequences = max_sequences
        self._prefill_chunk = prefill_chunk
        self._kv_tokens = kv_tokens or settings.STREAMSITE_KV_TOKENS
        self._engine = TorchEngine(
            self._load_runner,
            max_sequences=max_sequences,
            max_queue=max_queue,
            # OpenVINO cuts prompts itself.
            prefill_chunk=sys.maxsize if self._engine_name == "openvino" else prefill_chunk,
            slow_reader_s=settings.STREAMSITE_SLOW_READER_S,
            name=alias,
        )
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._text: Future[LoadedText] = Future()
        self._known_facts: ModelFacts | None = None

    @property
    def supports(self) -> frozenset[str]:  # type: ignore[override]  # of the engine, not of the class
        return self._SUPPORTED - UNSUPPORTED if self._engine_name == "openvino" else self._SUPPORTED

    def models(self) -> tuple[ModelCard, ...]:
        facts = self._facts()
        context_length = self._text.result().config.context_length if self._is_text_loaded else None
        return (
            ModelCard(
                id=facts.id,
                owned_by="streamsite",
                title=facts.title,
                description=facts.description,
                licence=facts.licence,
                origin=facts.origin,
                context_length=context_length,
            ),
        )

    async def stream(self, request: GenerationRequest) -> DeltaStream:
        self.refuse_unsupported(request)
        if request.sampling.top_logprobs and "top_logprobs" not in self.supports:
            # The field of /v1/completions asks for both in one.
            raise InvalidRequestError(
                "This engine tells the log-probability of the chosen token only. Ask for 0 likeliest ones beside it.",
                param="logprobs",
            )
        self.start()
        if not self._engine.has_room:
            raise RateLimitError("The model's queue is full. Try again in a moment.")
        # Shielded: a request that goes away must not cancel the load that others wait for.
        text = await asyncio.shield(asyncio.wrap_future(self._text))
        if self._engine.state is EngineState.FAILED:
            raise BackendUnavailableError(self._engine.message)
        prompt_ids = await asyncio.to_thread(checked_prompt, text, request)
        return LocalStream(
            self._engine,
            text.vocabulary,
            prompt_ids=prompt_ids,
            sampling=text.config.completed(request.sampling),
            end_ids=text.config.end_ids,
            knows_cached=self._engine_name == "torch",
            constraint=await constraint_for(request.sampling.response_format, text.grammars),
            continues_text=request.prompt is not None,
        )

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._load, name=f"load-{self.alias}", daemon=True)
                self._thread.start()

    @property
    def health(self) -> BackendHealth:
        if self._thread is None:
            return BackendHealth(state=BackendState.IDLE)
        if not self._text.done():
            return BackendHealth(state=BackendState.LOADING, message="loading the tokenizer")
        if not self._is_text_loaded:
            return BackendHealth(state=BackendState.FAILED, message=str(self._text.exception()))
        message = self._engine.message
        if self._engine.state is EngineState.LOADING:
            message = f"{message} ({self._facts().title})"
        return BackendHealth(state=BackendState(self._engine.state), message=message)

    def tokenizer_tier(self) -> str:
        text = self._text.result() if self._is_text_loaded else self._load_text()
        return text.vocabulary.tier.value

    def spell(self, token_ids: Sequence[int]) -> list[bytes] | None:
        if not self._is_text_loaded:
            return None
        vocabulary = self._text.result().vocabulary
        return [vocabulary.bytes_of(token_id) for token_id in token_ids]

    @property
    def active(self) -> int:
        return self._engine.active

    def close(self) -> None:
        with self._lock:
            self._closed = True
            never_started = self._thread is None
        if never_started and not self._text.done():
            self._text.set_exception(ServerShutdownError("The server is shutting down."))
        self._engine.close()
        if self._is_text_loaded and (grammars := self._text.result().grammars) is not None:
            grammars.close()

    @property
    def _is_text_loaded(self) -> bool:
        return self._text.done() and self._text.exception() is None

    def _facts(self) -> ModelFacts:
        """What is known of the model, even before its files are there."""
        if self._known_facts is None:
            model = self._model or settings.STREAMSITE_MODEL
            try:
                self._known_facts = read_facts(find_model(model, settings.STREAMSITE_VAR))
            except BackendUnavailableError:
                return ModelFacts(id=Path(model).name.lower(), title=model) if model else BUNDLED.facts
        return self._known_facts

    def _load(self) -> None:
        """Load the tokenizer, then let the engine load the model. Runs in a thread of its own."""
        try:
            self._text.set_result(self._load_text())
        except BackendUnavailableError as exc:
            self._text.set_exception(exc)
        except Exception as exc:
            message = f"The tokenizer cannot be loaded: {exc}. Run `manage.py fetch_model --check`."
            self._text.set_exception(BackendUnavailableError(message))
        else:
            self._engine.start()

    def _load_text(self) -> LoadedText:
        return load_text(
            find_model(self._model or settings.STREAMSITE_MODEL, settings.STREAMSITE_VAR),
            context_length=self._context_length,
            max_sequences=self._max_sequences,
            kv_tokens=self._kv_tokens,
        )

    def _load_runner(self) -> Runner:
        """Load the model. Called by the engine's thread, after the tokenizer is there."""
        text = self._text.result()
        if self._engine_name == "openvino":
            return load_openvino_runner(
                find_openvino_model(self._model or settings.STREAMSITE_MODEL, settings.STREAMSITE_VAR),
                context_length=text.config.context_length,
                vocab_size=text.config.vocab_size,
                max_sequences=self._max_sequences,
                kv_tokens=text.budget.tokens,
                prefill_chunk=self._prefill_chunk,
                weights=self._weights,
                threads=self._threads,
            )
        from generation.engine.torch_model import load_runner

        return load_runner(
            text.folder,
            context_length=text.config.context_length,
            max_sequences=self._max_sequences,
            kv_tokens=text.budget.tokens,
            weights=self._weights,
            device=self._device,
            threads=self._threads,
        )


def _usable_cpus() -> int:
    # More than 8 only wait for each other on a model of this size.
    return min(len(os.sched_getaffinity(0)), 8)
