"""The forward pass of llama-family models over a KV slab: ids and places in, hidden states and logits out.

The library's modules take one cache per batch and every sequence at the same length; here each row has its own slot
and position. A row's result is the same to the last bit whatever other rows are computed with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from generation.engine.huge_pages import use_huge_pages
from generation.engine.kv_budget import rounded
from generation.engine.kv_slab import KVSlab
from generation.engine.llama_weights import EMBEDDING, HEAD, LlamaWeights
from generation.engine.packed_linear import PackedLinear, SharedLinear, can_share

#: Rows of a prompt that one call attends for, where the last bits count.
QUERY_BLOCK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive positions of one sequence: a piece of its prompt (``is_prefill``), or its newest id."""

    slot: int
    start: int
    count: int
    is_prefill: bool = False


class Step:
    """Where the rows of a step belong in the slab, and how they look at it. Spans of one row are best in slot order."""

    def __init__(self, spans: list[Span], like: torch.Tensor) -> None:
        slots = [span.slot for span in spans for _ in range(span.count)]
        positions = [span.start + i for span in spans for i in range(span.count)]
        self.slots = torch.tensor(slots, device=like.device)
        self.positions = torch.tensor(positions, device=like.device)
        self._parts = [
            (
                sum(span.count for span in part),
                PrefillAttention(part[0], like) if part[0].is_prefill else DecodeAttention(part, like),
            )
            for part in _parts(spans)
        ]

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Attend; ``queries`` and the result have the shape (rows, kv heads, group, head size)."""
        if len(self._parts) == 1:
            return self._parts[0][1](queries, keys, values)
        rows = torch.split(queries, [count for count, _ in self._parts])
        return torch.cat(
            [attention(part, keys, values) for part, (_, attention) in zip(rows, self._parts, strict=True)]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer's weights, those that read the same input joined."""

    attention_norm: torch.Tensor
    query_key_value: PackedLinear
    output: PackedLinear
    mlp_norm: torch.Tensor
    gate_up: PackedLinear
    down: PackedLinear

    @property
    def linears(self) -> tuple[PackedLinear, ...]:
        """All that a step reads but the norms, which are small."""
        return self.query_key_value, self.output, self.gate_up, self.down


class Llama:
    """Weights in memory, the big ones packed.

    ``int8_rows``: at most so many rows are computed with int8 weights; the others must be bf16 then.
    """

    def __init__(self, weights: LlamaWeights, *, context_length: int, int8_rows: int = 0) -> None:
        config = weights.config
        self.dtype = weights.dtype
        self._int8_rows = int8_rows
        self.device = weights.device
        self.layers = config.layers
        self.heads = config.heads
        self.kv_heads = config.kv_heads
        self.head_size = config.head_size
        self._eps = config.eps
        self._cos, self._sin = _rotations(weights, context_length)
        embedding = weights[EMBEDDING]
        self._head = _take_head(weights, embedding)
        # Packed weights are a copy, and of these only few rows are ever looked up.
        self._embedding = weights.mapped(EMBEDDING) if self._head.is_packed else embedding
        self._norm = weights["model.norm.weight"]
        self.vocab_size = len(self._embedding)
        self._layers = [_take_layer(weights, f"model.layers.{index}", int8_rows) for index in range(self.layers)]
        if self.device.type == "cpu":
            linears = [self._head, *(linear for layer in self._layers for linear in layer.linears)]
            use_huge_pages(area for linear in linears for area in linear.memory)

    def __call__(self, token_ids: torch.Tensor, step: Step, slab: KVSlab) -> torch.Tensor:
        """Write the rows' keys and values to the slab; return their hidden states, shape (rows, hidden size)."""
        hidden = functional.embedding(token_ids, self._embedding)
        rotation = self._cos[step.positions], self._sin[step.positions]
        places = step.slots, step.positions
        for layer, memory, keys, values in zip(self._layers, slab.layers, slab.keys, slab.values, strict=True):
            queries, memory[places] = self._query_key_value(layer, hidden, rotation)
            hidden = hidden + layer.output(step.attend(queries, keys, values).flatten(1))
            gate, up = layer.gate_up(self._normed(hidden, layer.mlp_norm)).chunk(2, -1)
            hidden = hidden + layer.down(functional.silu(gate).mul_(up))
        return hidden

    @property
    def weights(self) -> str:
        """What the weights are, in words."""
        few = f" (int8 for at most {self._int8_rows} rows)" if self._int8_rows else ""
        return f"{str(self.dtype).removeprefix('torch.')}{few}"

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits of rows of hidden states, shape (rows, vocab_size)."""
        return self._head(self._normed(hidden, self._norm))

    def _query_key_value(
        self, layer: Layer, hidden: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries as `Step.attend` takes them; keys and values of shape (rows, 2, kv heads, head size)."""
        joined = layer.query_key_value(self._normed(hidden, layer.attention_norm))
        joined = joined.view(len(hidden), self.heads + 2 * self.kv_heads, self.head_size)
        rotated = joined[:, : -self.kv_heads]
        cos, sin = rotation
        torch.add(rotated * cos, rotated.roll(self.head_size // 2, -1).mul_(sin), out=rotated)
        queries, keys_values = joined[:, : self.heads], joined[:, self.heads :]
        return (
            queries.view(len(hidden), self.kv_heads, -1, self.head_size),
            keys_values.view(len(hidden), 2, self.kv_heads, self.head_size),
        )

    def _normed(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        # As the library rounds: the mean and the scaling in f32, the weight afterwards.
        return weight * functional.rms_norm(hidden, weight.shape, None, self._eps)


def _take_head(weights: LlamaWeights, embedding: torch.Tensor) -> PackedLinear | SharedLinear:
    """Without int8: that gains 0.3 ms for one row and nothing for more, and costs 28 MB."""
    if not weights.config.is_tied:
        return PackedLinear(weights[HEAD])
    return SharedLinear(embedding) if can_share(embedding) else PackedLinear(embedding)


class DecodeAttention:
    """One row of each of several neighbouring slots, over everything before it."""

    def __init__(self, spans: list[Span], like: torch.Tensor) -> None:
        self._slots = slice(spans[0].slot, spans[-1].slot + 1)
        self._length = _rounded_length(spans[0])
        self._multiple = 4 if _is_exact(like) else 1
        last = torch.tensor([span.start for span in spans], device=like.device).view(-1, 1, 1, 1)
        self._mask = _mask(torch.arange(self._length, device=like.device) > last, like)

    def __call__(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        group = queries.shape[2]
        # With a number of rows that is no multiple of 4 the kernel's last bits depend on the thread it runs in. A row
        # of zeros takes as long as any other.
        missing = -group % self._multiple
        attended = functional.scaled_dot_product_attention(
            functional.pad(queries, (0, 0, 0, missing)) if missing else queries,
            keys[self._slots, :, : self._length],
            values[self._slots, :, : self._length],
            attn_mask=self._mask,
        )
        return attended[:, :, :group] if missing else attended


class PrefillAttention:
    """Rows of one slot, each over itself and everything before, filled up with rows of zeros to whole blocks.

    So few different shapes occur, each of which has kernels of its own, compiled at first use and kept. In f32 on a CPU
    the blocks lie at fixed positions, so that a row comes out the same to the last bit in whatever piece of the prompt
    it is computed. Elsewhere nothing could promise that, and one block is faster.
    """

    def __init__(self, span: Span, like: torch.Tensor) -> None:
        self._slot, self._count = span.slot, span.count
        end = span.start + span.count
        if _is_exact(like):
            self._before, self._after, self._block = span.start % QUERY_BLOCK, -end % QUERY_BLOCK, QUERY_BLOCK
        else:
            self._before, self._after = 0, -span.count % QUERY_BLOCK
            self._block = span.count + self._after
        self._masks = []
        for start in range(span.start - self._before, end + self._after, self._block):
            length = start + self._block if _is_exact(like) else rounded(end)
            unseen = torch.ones(self._block, length, dtype=torch.bool, device=like.device)
            self._masks.append(_mask(unseen.triu_(start + 1), like))

    def __call__(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        queries = functional.pad(queries, (0, 0, 0, 0, 0, 0, self._before, self._after)).permute(1, 2, 0, 3)
        shape = (-1, queries.shape[1], -1, -1)
        blocks = [
            functional.scaled_dot_product_attention(
                rows,
                keys[self._slot, :, : mask.shape[1]].unsqueeze(1).expand(shape),
                values[self._slot, :, : mask.shape[1]].unsqueeze(1).expand(shape),
                attn_mask=mask,
            )
            for rows, mask in zip(torch.split(queries, self._block, 2), self._masks, strict=True)
        ]
        return torch.cat(blocks, 2).permute(2, 0, 1, 3)[self._before : self._before + self._count]


def _is_exact(like: torch.Tensor) -> bool:
    """Whether a row must be the same to the last bit whatever is computed beside it."""
    return like.dtype == torch.float32 and like.device.type == "cpu"


def _parts(spans: list[Span]) -> list[list[Span]]:
    """Spans that one call can attend for: a piece of a prompt, or newest ids of neighbours of one rounded length.

    The length a row is computed over must not depend on others: over 320 and 384 masked positions it comes out
    different in its last bits.
    """
    parts: list[list[Span]] = []
    for span in spans:
        before = parts[-1][-1] if parts else None
        if (
            before is not None
            and not (before.is_prefill or span.is_prefill)
            and before.slot + 1 == span.slot
            and _rounded_length(before) == _rounded_length(span)
        ):
            parts[-1].append(span)
        else:
            parts.append([span])
    return parts


def _rounded_length(span: Span) -> int:
    return rounded(span.start + 1)


def _mask(unseen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros(unseen.shape, dtype=like.dtype, device=like.device).masked_fill_(unseen, -torch.inf)


def _rotations(weights: LlamaWeights, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every position, shape (positions, 1, head size); the sines signed for `Tensor.roll`."""
    cos, sin = weights.rotations(positions)
    sin[..., : sin.shape[-1] // 2].neg_()
    return cos.unsqueeze(1), sin.unsqueeze(1)


def _take_layer(weights: LlamaWeights, layer: str, int8_rows: int) -> Layer:
    def joined(*names: str) -> PackedLinear:
        biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
        weight = torch.cat([weights[f"{name}.weight"] for name in names])
        return PackedLinear(weight, torch.cat(biases) if biases else None, int8_rows=int8_rows)

    attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"
    return Layer(
        attention_norm=weights[f"{layer}.input_layernorm.weight"],
        query_key_value=joined(f"{attention}.q_proj", f"{attention}.k_proj", f"{attention}.v_proj"),
        output=joined(f"{attention}.o_proj"),
        mlp_norm=weights[f"{layer}.post_attention_layernorm.weight"],
        gate_up=joined(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
        down=joined(f"{mlp}.down_proj"),
    )
