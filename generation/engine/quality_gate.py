"""Measures what int8 weights change: a model's folder in, the differences on a fixed text out.

Run once per model, by ``manage.py fetch_model``. The text is read by three versions of the model, one after the other,
and their next-token distributions are compared at every place.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional

from generation.engine.kv_slab import KVSlab
from generation.engine.llama import Llama, Span, Step
from generation.engine.llama_weights import LlamaWeights, read_llama_config
from generation.engine.model_config import read_model_config
from generation.engine.weights import TEXT_FILE, Difference, Int8Quality

#: Enough that 1 % is 4 places; three readings of them take some seconds.
MOST_TOKENS = 384
#: Places computed at once.
BLOCK = 64
CPU = torch.device("cpu")
#: Bytes of bf16 weights; the same in f32 must fit into memory.
MOST_WEIGHTS = 4_000_000_000


def measure_quality(folder: Path) -> Int8Quality | None:
    """Compare int8 weights with bf16 and f32 ones; None for big models and those that `Llama` does not compute."""
    if sum(path.stat().st_size for path in folder.glob("*.safetensors")) > MOST_WEIGHTS:
        return None
    config = read_llama_config(folder)
    if config is None:
        return None
    threads = torch.get_num_threads()
    # On a busy machine two wait for each other longer than they work: 135 s instead of 35.
    torch.set_num_threads(1)
    try:
        text = TEXT_FILE.read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        most = min(MOST_TOKENS, read_model_config(folder).context_length)
        token_ids = tokenizer.encode(text, add_special_tokens=False).ids[:most]
        with torch.inference_mode():
            f32 = _read(LlamaWeights(folder, config, dtype=torch.float32, device=CPU), token_ids)
            weights = LlamaWeights(folder, config, dtype=torch.bfloat16, device=CPU)
            bf16 = _read(weights, token_ids)
            int8 = _read(weights, token_ids, int8_rows=BLOCK)
            return Int8Quality(tokens=len(f32), to_bf16=_difference(int8, bf16), to_f32=_difference(int8, f32))
    finally:
        torch.set_num_threads(threads)


def _read(weights: LlamaWeights, token_ids: list[int], *, int8_rows: int = 0) -> torch.Tensor:
    """Logarithms of the next token's probabilities after each place, shape (places, vocabulary)."""
    ids = torch.tensor(token_ids)
    llama = Llama(weights, context_length=len(ids), int8_rows=int8_rows)
    slab = KVSlab(
        layers=llama.layers,
        slots=1,
        kv_heads=llama.kv_heads,
        positions=len(ids),
        head_size=llama.head_size,
        dtype=llama.dtype,
        device=llama.device,
        tokens=len(ids),
    )
    blocks = []
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        step = Step([Span(slot=0, start=start, count=len(block), is_prefill=True)], slab.keys)
        blocks.append(llama.logits(llama(block, step, slab)).float().log_softmax(-1))
    return torch.cat(blocks)


def _difference(tried: torch.Tensor, reference: torch.Tensor) -> Difference:
    kl = functional.kl_div(tried, reference, reduction="batchmean", log_target=True).item()
    agreement = (tried.argmax(-1) == reference.argmax(-1)).float().mean().item()
    return Difference(kl=round(kl, 5), agreement=round(agreement, 4))
