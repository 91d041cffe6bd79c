"""What a model folder's JSON files say about the model, known before any weight is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from generation.exceptions import BackendUnavailableError
from generation.request import SamplingParams

#: Fields of ``generation_config.json`` that set a model's default way of sampling.
SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Limits, end tokens and sampling defaults of a model.

    ``defaults`` has what the model's authors recommend in ``generation_config.json``, and no more: a field that they
    leave out is off, the temperature is 1 as OpenAI's is, or 0 where they say ``do_sample: false``.
    """

    context_length: int
    vocab_size: int
    end_ids: frozenset[int]
    defaults: SamplingParams

    def completed(self, sampling: SamplingParams) -> SamplingParams:
        """``sampling`` with the model's default in each place the request left open."""
        open_fields = {
            name: getattr(self.defaults, name) for name in SAMPLING_FIELDS if getattr(sampling, name) is None
        }
        return replace(sampling, **open_fields)


def read_model_config(folder: Path, *, context_length: int | None = None) -> ModelConfig:
    """Read the JSON files of a model folder; ``context_length`` can lower the model's own.

    Raises BackendUnavailableError when the files do not describe a language model.
    """
    try:
        config = _json(folder / "config.json")
        generation = _json(folder / "generation_config.json") if (folder / "generation_config.json").is_file() else {}
        # Models that also see or hear keep the language model's figures one level down.
        text = config.get("text_config", config)
        own_length = text.get("max_position_embeddings") or text["n_positions"]
        return ModelConfig(
            context_length=min(own_length, context_length or own_length),
            vocab_size=text["vocab_size"],
            end_ids=_ids(generation.get("eos_token_id", config.get("eos_token_id", text.get("eos_token_id")))),
            defaults=_defaults(generation),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BackendUnavailableError(
            f"{folder / 'config.json'} does not describe a language model ({exc!r})."
        ) from exc


def _defaults(generation: dict[str, Any]) -> SamplingParams:
    values: dict[str, Any] = {name: generation.get(name) for name in SAMPLING_FIELDS}
    if values["temperature"] is None:
        values["temperature"] = 1.0
    if generation.get("do_sample") is False:
        values["temperature"] = 0.0
    return SamplingParams(**values)


def _ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def _json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
