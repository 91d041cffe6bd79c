"""How much KV memory sequences may take: counted in positions, known before a sequence begins.

Every sequence reserves what it can come to when it is admitted, so none ever runs out of memory half way, and what one
may say does not depend on who else is there.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Memory is counted and computed over in multiples of this, so that few different shapes occur.
BLOCK = 128
#: A sequence's part of the memory where nothing else is said: enough for most chats, little beside the weights.
USUAL_POSITIONS = 2048
#: What one sequence can have at least, however few may run.
LEAST_TOKENS = 8192


def rounded(positions: int) -> int:
    """Positions as whole blocks."""
    return -(-positions // BLOCK) * BLOCK


def default_kv_tokens(*, max_sequences: int, context_length: int) -> int:
    """The budget where none is set: the usual length for each, and room for one that is long."""
    usual = min(context_length, USUAL_POSITIONS)
    return rounded(max(max_sequences * usual, min(context_length, LEAST_TOKENS)))


def common_prefix(a: list[int], b: list[int]) -> int:
    """How many ids two lists have in common at their beginning."""
    equal, length = 0, min(len(a), len(b))
    if a[:length] == b[:length]:
        return length
    # Halving: comparing slices is a hundred times faster than a loop.
    while length - equal > 1:
        middle = (equal + length) // 2
        if a[equal:middle] == b[equal:middle]:
            equal = middle
        else:
            length = middle
    return equal


@dataclass(frozen=True, slots=True, kw_only=True)
class KVBudget:
    """``tokens`` positions for all sequences together, of which at most ``max_sequences`` run."""

    tokens: int
    max_sequences: int
    context_length: int

    def limit(self, prompt_tokens: int, max_tokens: int | None) -> int:
        """Positions that prompt and answer may take together; more than ``tokens`` when they can never fit.

        An answer without ``max_tokens`` gets its even share of the memory, after a long prompt half a share, in whole
        blocks, and one token at least.
        """
        if max_tokens is not None:
            return min(prompt_tokens + max_tokens, self.context_length)
        share = self.tokens // self.max_sequences
        longest = min(self.context_length, self.tokens)
        return max(min(rounded(max(share, prompt_tokens + share // 2)), longest), prompt_tokens + 1)

    def refusal(self, limit: int) -> str:
        """Why a sequence of this limit can never run, and what to do."""
        return (
            f"The messages and the answer take {limit} tokens together; this server has memory for "
            f"{min(self.tokens, self.context_length)}. Shorten the messages or ask for fewer tokens."
        )
