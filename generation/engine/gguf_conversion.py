"""A GGUF file in, a folder of bf16 safetensors and tokenizer files out.

Done once per model: reading a GGUF takes 10-30 s and 1.1 GB each time, the converted folder 1.3 s.
The weights are unpacked into an ordinary model: ``from_pretrained(gguf_file=…)`` wants another package and keeps
quantisation state that ``save_pretrained`` refuses to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from transformers.utils import logging as transformers_logging

Report = Callable[[str], None]


def convert_gguf(gguf: Path, folder: Path, *, report: Report, generation_defaults: Mapping[str, Any]) -> None:
    """Write the model in ``gguf`` to ``folder``. Raises whatever the libraries do for a bad file."""
    transformers_logging.disable_progress_bar()
    report("  reading the file's description …")
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    report("  converting the tokenizer …")
    _save_tokenizer(gguf, folder, vocab_size=config.vocab_size)
    report("  unpacking the weights to bf16 …")
    model = _unpacked_model(gguf, config)
    model.generation_config.update(**generation_defaults)
    report("  writing the weights …")
    model.save_pretrained(folder)
    for path in folder.iterdir():
        # Weights come out readable by their owner only; the server may run as someone else.
        path.chmod(0o644)


def _unpacked_model(gguf: Path, config: Any) -> Any:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    checkpoint = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model, torch_dtype=torch.bfloat16)
    missing, unexpected = model.load_state_dict(checkpoint["tensors"], strict=False, assign=True)
    model.tie_weights()
    still_empty = [name for name, weight in model.named_parameters() if weight.is_meta]
    if still_empty or unexpected:
        raise ValueError(f"the weights do not fit the model: missing {still_empty or missing}, unknown {unexpected}")
    return model


def _save_tokenizer(gguf: Path, folder: Path, *, vocab_size: int) -> None:
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if not tokenizer.chat_template:
        raise ValueError("the file has no chat template, so it is not a chat model")
    _restore_digit_splitting(gguf, tokenizer.backend_tokenizer)
    tokenizer.save_pretrained(folder)
    _check_tokenizer(Tokenizer.from_file(str(folder / "tokenizer.json")), vocab_size=vocab_size)


def _restore_digit_splitting(gguf: Path, tokenizer: Tokenizer) -> None:
    """Split digits one by one before everything else, as SmolLM's own tokenizer does; the library's reader drops it."""
    from transformers.integrations.gguf import read_gguf_metadata

    metadata, _ = read_gguf_metadata(str(gguf))
    if metadata.get("tokenizer.ggml.pre") == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


def _check_tokenizer(tokenizer: Tokenizer, *, vocab_size: int) -> None:
    """Refuse a conversion that would silently talk nonsense."""
    if tokenizer.get_vocab_size() > vocab_size:
        raise ValueError(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the model only {vocab_size}")
    for token_id, token in tokenizer.get_added_tokens_decoder().items():
        ids = tokenizer.encode(token.content, add_special_tokens=False).ids
        if token.special and ids != [token_id]:
            raise ValueError(f"the special token {token.content} is {ids}, not [{token_id}]")
