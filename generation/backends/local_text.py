"""The text side of a local model: its tokenizer and template, its limits, and the prompt that a request comes to.

In: a model folder, then requests. Out: prompt ids that the engine can take, or an error that names the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generation.backends.response_format import grammars_of
from generation.engine.grammar import Grammars
from generation.engine.kv_budget import KVBudget, default_kv_tokens, rounded
from generation.engine.model_config import ModelConfig, read_model_config
from generation.exceptions import InvalidRequestError
from generation.request import GenerationRequest, SamplingParams
from generation.text import Vocabulary

if TYPE_CHECKING:
    from generation.backends.chat_prompt import ChatPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedText:
    """All of a model folder but its weights."""

    folder: Path
    config: ModelConfig
    budget: KVBudget
    prompt: ChatPrompt
    vocabulary: Vocabulary
    #: None for a tokenizer whose tokens cannot be read one by one.
    grammars: Grammars | None


def load_text(folder: Path, *, context_length: int | None, max_sequences: int, kv_tokens: int) -> LoadedText:
    """Load all of a model folder but its weights, about 2 s; the limits are the backend's options."""
    from generation.backends.chat_prompt import ChatPrompt  # transformers takes a second to import

    config = read_model_config(folder, context_length=context_length)
    prompt = ChatPrompt(folder)
    budget = KVBudget(
        tokens=rounded(kv_tokens)
        or default_kv_tokens(max_sequences=max_sequences, context_length=config.context_length),
        max_sequences=max_sequences,
        context_length=config.context_length,
    )
    vocabulary = Vocabulary.load(prompt.tokenizer)
    return LoadedText(
        folder=folder,
        config=config,
        budget=budget,
        prompt=prompt,
        vocabulary=vocabulary,
        grammars=grammars_of(vocabulary, end_ids=config.end_ids),
    )


def checked_prompt(text: LoadedText, request: GenerationRequest) -> list[int]:
    """The prompt's ids. Raises InvalidRequestError when they, the answer or the logit bias do not fit the model."""
    prompt_ids = _prompt_ids(text, request)
    _check_lengths(len(prompt_ids), request, text.budget)
    _check_logit_bias(request.sampling, text.config.vocab_size)
    return prompt_ids


def _prompt_ids(text: LoadedText, request: GenerationRequest) -> list[int]:
    if request.prompt is None:
        return text.prompt.encode(request.messages)
    if isinstance(request.prompt, str):
        prompt_ids = text.prompt.encode_text(request.prompt)
        if not prompt_ids:
            raise InvalidRequestError("The prompt has no tokens; it must have at least one.", param="prompt")
        return prompt_ids
    for token_id in request.prompt:
        if not 0 <= token_id < text.config.vocab_size:
            raise InvalidRequestError(
                f"The prompt has the token {token_id}; this model's tokens are 0 to {text.config.vocab_size - 1}.",
                param="prompt",
            )
    return list(request.prompt)


def _check_lengths(prompt_tokens: int, request: GenerationRequest, budget: KVBudget) -> None:
    context_length = budget.context_length
    max_tokens = request.sampling.max_tokens
    what = "messages have" if request.prompt is None else "prompt has"
    if max_tokens is not None and max_tokens >= context_length:
        raise InvalidRequestError(
            f"max_tokens is {max_tokens}, but the model's whole context holds {context_length} tokens.",
            param="max_tokens",
            code="context_length_exceeded",
        )
    if prompt_tokens + (max_tokens or 1) > context_length:
        raise InvalidRequestError(
            f"The {what} {prompt_tokens} tokens and the answer may have {max_tokens or 1}, together "
            f"{prompt_tokens + (max_tokens or 1)}; the model's context holds {context_length}. Shorten the "
            f"{what.split()[0]} or ask for fewer tokens.",
            param=what.split()[0],
            code="context_length_exceeded",
        )
    limit = budget.limit(prompt_tokens, max_tokens)
    if limit > budget.tokens:
        raise InvalidRequestError(budget.refusal(limit), param=what.split()[0], code="context_length_exceeded")


def _check_logit_bias(sampling: SamplingParams, vocab_size: int) -> None:
    for token_id in sampling.logit_bias:
        if not 0 <= token_id < vocab_size:
            raise InvalidRequestError(
                f"logit_bias names the token {token_id}; this model's tokens are 0 to {vocab_size - 1}.",
                param="logit_bias",
            )
