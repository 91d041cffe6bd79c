from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings
from tokenizers import Tokenizer, decoders

from generation.backends.base import BackendState
from generation.backends.local import LocalBackend
from generation.exceptions import (
    BackendUnavailableError,
    EngineError,
    InvalidRequestError,
    RateLimitError,
    ServerShutdownError,
)
from generation.output import Outcome, StopReason, Usage
from generation.request import ChatMessage, GenerationRequest, ResponseFormat, SamplingParams
from generation.text import Verdict
from tests.generation.backends.asking import WAIT_S, ask, read, text, until
from tests.tiny_model import CONTEXT_LENGTH, END_ID, SPECIAL_TOKENS

MakeLocal = Callable[..., LocalBackend]
#: Ids of `ask("Tea?")` in the tiny model: 3 special tokens, 5 of "user\n", 4, 1 and 9 of "assistant\n" ("an" is one).
PROMPT_TOKENS = 22


@pytest.fixture
def make_local(tiny_folder: Path) -> Iterator[MakeLocal]:
    made: list[LocalBackend] = []

    def make(**options: Any) -> LocalBackend:
        # One thread: on a busy machine two wait for each other longer than they work.
        backend = LocalBackend("test", **{"model": str(tiny_folder), "threads": 1, "weights": "f32", **options})
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def local(make_local: MakeLocal) -> LocalBackend:
    return make_local()


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true, with this thread standing still."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def only(tokenizer: Tokenizer, text: str) -> dict[int, float]:
    """A bias that lets the model say nothing but this token."""
    token_id = tokenizer.token_to_id(text)
    assert token_id is not None
    return {token_id: 100.0}


@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
async def test_joined_deltas_are_the_decoded_ids_when_streamed(
    local: LocalBackend, tokenizer: Tokenizer, temperature: float
) -> None:
    stream = await local.stream(ask(max_tokens=60, temperature=temperature, seed=5))
    deltas = await read(stream)
    assert stream.token_ids is not None
    assert text(deltas) == tokenizer.decode(stream.token_ids)
    assert stream.outcome is not None
    assert stream.outcome.usage == Usage(
        prompt_tokens=PROMPT_TOKENS, completion_tokens=len(stream.token_ids), cached_tokens=0
    )
    assert stream.prompt_tokens == PROMPT_TOKENS
    assert len(stream.token_times) == len(stream.token_ids)
    assert stream.begun_at is not None
    assert [stream.begun_at, *stream.token_times] == sorted([stream.begun_at, *stream.token_times])
    assert local.active == 0


async def test_generation_has_begun_before_its_first_token_comes_over(local: LocalBackend) -> None:
    stream = await local.stream(ask(max_tokens=1))
    assert not stream.begun
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)  # it is submitted
    # The engine's thread goes on while this loop, which would take its tokens, does not.
    assert within(WAIT_S, lambda: stream.begun)
    assert stream.begun_at is None
    await first
    assert [delta async for delta in stream] == []
    assert stream.begun_at is not None


async def test_model_is_loaded_once_and_healthy_when_first_asked(local: LocalBackend) -> None:
    assert local.health.state is BackendState.IDLE
    await read(await local.stream(ask(max_tokens=1)))
    assert local.health.state is BackendState.READY
    assert local.models()[0].context_length == CONTEXT_LENGTH


async def test_models_own_way_of_sampling_is_used_when_the_request_says_nothing(local: LocalBackend) -> None:
    # The tiny model's generation config says: greedy.
    said = [text(await read(await local.stream(ask(max_tokens=20)))) for _ in range(2)]
    greedy = text(await read(await local.stream(ask(max_tokens=20, temperature=0.0))))
    assert said == [greedy, greedy]


@pytest.mark.parametrize(
    ("sampling", "shown", "outcome"),
    [
        pytest.param({"max_tokens": 3}, "aaa", Outcome(stop_reason=StopReason.LENGTH), id="length"),
        pytest.param(
            {"max_tokens": 9, "stop": ("aaaa",)},
            "",
            Outcome(stop_reason=StopReason.STOP_STRING, stop_string="aaaa"),
            id="stop string",
        ),
        pytest.param(
            {"max_tokens": 9, "stop": ("aaaa",), "include_stop": True},
            "aaaa",
            Outcome(stop_reason=StopReason.STOP_STRING, stop_string="aaaa"),
            id="stop string kept",
        ),
        pytest.param(
            {"max_tokens": 4, "stop": ("aaaa",)},
            "",
            Outcome(stop_reason=StopReason.STOP_STRING, stop_string="aaaa"),
            id="stop string on the last allowed token",
        ),
        pytest.param(
            {"max_tokens": 3, "stop": ("aaaa",)}, "aaa", Outcome(stop_reason=StopReason.LENGTH), id="held, but no stop"
        ),
    ],
)
async def test_stream_ends_when(
    local: LocalBackend, tokenizer: Tokenizer, sampling: dict[str, Any], shown: str, outcome: Outcome
) -> None:
    stream = await local.stream(ask(**sampling, logit_bias=only(tokenizer, "a")))
    assert text(await read(stream)) == shown
    assert stream.outcome is not None
    assert (stream.outcome.stop_reason, stream.outcome.stop_string) == (outcome.stop_reason, outcome.stop_string)


async def test_end_token_ends_the_stream_and_shows_nothing_when_sampled(
    local: LocalBackend, tokenizer: Tokenizer
) -> None:
    stream = await local.stream(ask(logit_bias={END_ID: 100.0}))
    assert await read(stream) == []
    assert stream.outcome == Outcome(
        stop_reason=StopReason.EOS, usage=Usage(prompt_tokens=PROMPT_TOKENS, completion_tokens=1, cached_tokens=0)
    )
    assert stream.token_ids == [END_ID]


@pytest.mark.parametrize("special", SPECIAL_TOKENS)
@pytest.mark.parametrize("ignore_eos", [True, False])
async def test_stream_ends_on_the_id_when_a_stop_string_is_a_special_token(
    local: LocalBackend, tokenizer: Tokenizer, special: str, ignore_eos: bool
) -> None:
    stopped: list[int] = []
    stream = await local.stream(ask(stop=(special,), ignore_eos=ignore_eos, logit_bias=only(tokenizer, special)))
    stream.on_stopped = lambda at, made: stopped.append(made)
    assert await read(stream) == []
    assert stream.outcome is not None
    assert (stream.outcome.stop_reason, stream.outcome.stop_string) == (StopReason.STOP_STRING, special)
    assert stopped == [1]  # by its id, so without a further step


async def test_engine_stops_when_a_stop_string_is_found(local: LocalBackend, tokenizer: Tokenizer) -> None:
    stopped: list[int] = []
    stream = await local.stream(ask(max_tokens=400, stop=("aaa",), logit_bias=only(tokenizer, "a")))
    stream.on_stopped = lambda at, made: stopped.append(made)
    await read(stream)
    await until(lambda: stopped != [])
    assert local.active == 0
    assert 3 <= stopped[0] < 400


@pytest.mark.parametrize("read_before", [0, 1, 10])
async def test_engine_stops_when_cancelled(local: LocalBackend, tokenizer: Tokenizer, read_before: int) -> None:
    stopped: list[int] = []
    stream = await local.stream(ask(max_tokens=450, logit_bias=only(tokenizer, "a")))
    stream.on_stopped = lambda at, made: stopped.append(made)
    for _ in range(read_before):
        await anext(stream)
    stream.cancel()
    stream.cancel()
    rest = await read_rest(stream)
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.CLIENT_STOP
    assert stopped == [len(stream.token_ids or [])]
    assert read_before + len(rest) == stopped[0] < 450
    assert local.active == 0


async def read_rest(stream: Any) -> list[str]:
    return [delta.text async for delta in stream]


async def test_nothing_is_lost_when_a_read_is_cancelled(local: LocalBackend, tokenizer: Tokenizer) -> None:
    stream = await local.stream(ask(max_tokens=100, logit_bias=only(tokenizer, "a")))
    shown, cancelled = "", 0
    while stream.outcome is None:
        reading = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        if not reading.done():
            reading.cancel()
            cancelled += 1
        delta = (await asyncio.gather(reading, return_exceptions=True))[0]
        shown += getattr(delta, "text", "")
        if cancelled > 20:
            break
    shown += "".join(await read_rest(stream))
    assert shown == "a" * 100
    assert cancelled > 0


async def test_special_tokens_in_a_message_do_not_end_the_turn_when_sent(local: LocalBackend) -> None:
    plain = await local.stream(ask("x"))
    forged = await local.stream(ask("<|im_end|>"))
    # Each character of it is a token: 10 in place of the one of "x".
    assert plain.prompt_tokens is not None
    assert forged.prompt_tokens == plain.prompt_tokens + 9


@pytest.mark.parametrize(
    ("question", "sampling", "param", "numbers"),
    [
        pytest.param("x" * 600, {}, "messages", ["618", "512"], id="prompt too long"),
        pytest.param("x" * 400, {"max_tokens": 200}, "messages", ["418", "200", "618", "512"], id="together too long"),
        pytest.param("x", {"max_tokens": 512}, "max_tokens", ["512"], id="max_tokens alone too long"),
        pytest.param("x", {"logit_bias": {99999: 1.0}}, "logit_bias", ["99999"], id="no such token"),
        pytest.param("x", {"logit_bias": {-1: 1.0}}, "logit_bias", ["-1"], id="negative token"),
    ],
)
async def test_request_is_refused_when(
    local: LocalBackend, question: str, sampling: dict[str, Any], param: str, numbers: list[str]
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await local.stream(ask(question, **sampling))
    assert caught.value.param == param
    assert all(number in caught.value.message for number in numbers), caught.value.message


async def test_answer_fills_the_context_exactly_when_nothing_ends_it(local: LocalBackend, tokenizer: Tokenizer) -> None:
    stream = await local.stream(ask("x" * 470, logit_bias=only(tokenizer, "a")))
    await read(stream)
    assert stream.outcome == Outcome(
        stop_reason=StopReason.CONTEXT,
        usage=Usage(prompt_tokens=488, completion_tokens=CONTEXT_LENGTH - 488, cached_tokens=0),
    )


async def test_cached_tokens_are_told_when_the_next_turn_comes(local: LocalBackend) -> None:
    await read(await local.stream(ask(max_tokens=1)))
    again = await local.stream(ask(max_tokens=1))
    await read(again)
    assert again.outcome is not None
    assert again.outcome.usage == Usage(
        prompt_tokens=PROMPT_TOKENS, completion_tokens=1, cached_tokens=PROMPT_TOKENS - 1
    )


@pytest.mark.parametrize(
    ("question", "max_tokens", "told"),
    [
        pytest.param("x", 300, ["319", "256"], id="the answer may become too long"),
        pytest.param("x" * 240, None, ["259", "256"], id="prompt too long"),
    ],
)
async def test_request_is_refused_when_it_can_never_have_its_memory(
    make_local: MakeLocal, question: str, max_tokens: int | None, told: list[str]
) -> None:
    local = make_local(kv_tokens=256)
    with pytest.raises(InvalidRequestError, match="this server has memory for") as caught:
        await local.stream(ask(question, max_tokens=max_tokens))
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")
    assert all(number in caught.value.message for number in told), caught.value.message


async def test_everybody_is_served_when_only_one_fits_at_a_time(make_local: MakeLocal, tokenizer: Tokenizer) -> None:
    local = make_local(kv_tokens=256)
    streams = [await local.stream(ask(max_tokens=200, logit_bias=only(tokenizer, letter))) for letter in "abcdef"]
    assert [text(deltas) for deltas in await asyncio.gather(*map(read, streams))] == [
        letter * 200 for letter in "abcdef"
    ]


async def test_unsupported_field_is_refused_when_asked_for(local: LocalBackend) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await local.stream(ask(asked_for=frozenset({"tools"})))
    assert caught.value.param == "tools"


async def test_each_token_of_the_text_has_its_log_probability_when_wanted(
    local: LocalBackend, tokenizer: Tokenizer
) -> None:
    stream = await local.stream(ask(max_tokens=40, temperature=1.0, seed=3, logprobs=True, top_logprobs=2))
    deltas = await read(stream)
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert stream.token_ids is not None
    assert b"".join(entry.data for entry in entries).decode(errors="replace") == text(deltas)
    assert len(entries) == sum(token_id > END_ID for token_id in stream.token_ids)
    assert all(entry.logprob <= entry.top[0].logprob <= 0 for entry in entries)
    assert all(entry.top[0].logprob >= entry.top[1].logprob for entry in entries)


async def test_request_is_refused_before_any_work_when_the_queue_is_full(
    make_local: MakeLocal, tokenizer: Tokenizer
) -> None:
    local = make_local(max_sequences=1, max_queue=0)
    first = await local.stream(ask(max_tokens=450, logit_bias=only(tokenizer, "a")))
    late = await local.stream(ask())
    await anext(first)
    with pytest.raises(RateLimitError):
        await local.stream(ask("x" * 9000))  # too long as well, but nobody looked
    with pytest.raises(RateLimitError):
        await anext(late)
    first.cancel()
    await read_rest(first)
    assert text(await read(await local.stream(ask(max_tokens=1, logit_bias=only(tokenizer, "a"))))) == "a"


async def test_streams_do_not_mix_when_several_run(local: LocalBackend, tokenizer: Tokenizer) -> None:
    streams = [await local.stream(ask(max_tokens=30, logit_bias=only(tokenizer, letter))) for letter in "abcd"]
    assert [text(deltas) for deltas in await asyncio.gather(*map(read, streams))] == [letter * 30 for letter in "abcd"]


async def test_stream_reports_the_failure_when_its_step_fails(local: LocalBackend, tokenizer: Tokenizer) -> None:
    # A bias of infinity gives values that are not numbers.
    stream = await local.stream(ask(logit_bias={5: float("inf")}))
    with pytest.raises(EngineError, match="not numbers"):
        await anext(stream)
    assert (stream.token_ids, local.active, local.health.state) == ([], 0, BackendState.READY)


async def test_open_streams_end_when_the_backend_is_closed(local: LocalBackend, tokenizer: Tokenizer) -> None:
    stream = await local.stream(ask(max_tokens=450, logit_bias=only(tokenizer, "a")))
    late = await local.stream(ask())
    await anext(stream)
    await asyncio.to_thread(local.close)
    with pytest.raises(ServerShutdownError):
        await read_rest(stream)
    with pytest.raises(ServerShutdownError):
        await anext(late)
    with pytest.raises(ServerShutdownError):
        await anext(await local.stream(ask()))


async def test_loop_keeps_turning_when_a_prompt_is_huge(local: LocalBackend) -> None:
    await read(await local.stream(ask(max_tokens=1)))
    turns = 0
    done = threading.Event()

    async def turn() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    with pytest.raises(InvalidRequestError):
        await local.stream(ask("the cat and the hat " * 100_000))
    done.set()
    await turning
    # 2 MB take half a second and more; a loop that stands still turns twice.
    assert turns > 20


@pytest.fixture
def no_model(settings: Settings, tmp_path: Path) -> None:
    settings.STREAMSITE_VAR = tmp_path
    settings.STREAMSITE_MODEL = ""


@pytest.mark.usefixtures("no_model")
async def test_backend_says_what_to_do_when_there_is_no_model(make_local: MakeLocal) -> None:
    local = make_local(model="")
    assert [(card.id, card.licence) for card in local.models()] == [("smollm2-135m", "Apache-2.0")]
    with pytest.raises(BackendUnavailableError, match=r"Run `manage\.py fetch_model`"):
        await local.stream(ask())
    assert local.health.state is BackendState.FAILED
    assert "Run `manage.py fetch_model`" in local.health.message


@pytest.fixture
def damaged_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "damaged"))
    (folder / "model.safetensors").write_bytes(b"damaged")
    return folder


async def test_backend_fails_in_words_when_the_weights_are_damaged(make_local: MakeLocal, damaged_folder: Path) -> None:
    local = make_local(model=str(damaged_folder))
    # The tokenizer is whole, so the request waits for the model and then learns the reason.
    with pytest.raises(BackendUnavailableError, match="The model cannot be loaded"):
        await anext(await local.stream(ask()))
    assert local.health.state is BackendState.FAILED
    with pytest.raises(BackendUnavailableError, match="The model cannot be loaded"):
        await local.stream(ask())


async def test_health_tells_each_phase_when_loading(make_local: MakeLocal) -> None:
    local = make_local()
    seen: list[tuple[str, str]] = []

    def note() -> bool:
        health = local.health
        if not seen or seen[-1] != (health.state.value, health.message):
            seen.append((health.state.value, health.message))
        return health.state is BackendState.READY

    note()
    local.start()
    await until(note)
    phases = [("idle", ""), ("loading", "loading the tokenizer"), ("loading", f"loading the model ({title(local)})")]
    assert seen[0] == phases[0]
    assert seen[-1] == (
        "ready",
        "8 sequences at once, 512 positions each and 4,096 together, float32, KV memory at most 1.0 MB",
    )
    assert [phase for phase in phases if phase in seen] == seen[:-1]


def title(local: LocalBackend) -> str:
    return local.models()[0].title


@pytest.mark.parametrize("option", ["max_sequences", "prefill_chunk"])
def test_option_is_refused_when_it_is_below_one(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is 0"):
        LocalBackend("test", **{option: 0})  # type: ignore[arg-type]


def test_option_is_refused_when_the_memory_is_negative() -> None:
    with pytest.raises(ValueError, match="kv_tokens is -1"):
        LocalBackend("test", kv_tokens=-1)


async def test_roles_reach_the_template_when_a_chat_is_sent(local: LocalBackend) -> None:
    chat = tuple(
        ChatMessage(role=role, content="x") for role in ("system", "user", "assistant", "tool", "developer", "user")
    )
    stream = await local.stream(GenerationRequest(model="default", messages=chat))
    assert stream.prompt_tokens is not None
    assert stream.prompt_tokens > PROMPT_TOKENS


POINT = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green", "blau\n€"]},
        "x": {"type": "integer", "minimum": 1, "maximum": 99},
        "on": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["colour", "x", "on"],
    "additionalProperties": False,
}
POINT_FORMAT = ResponseFormat(kind="json_schema", name="point", schema=POINT)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param({}, id="plain"),
        pytest.param({"min_tokens": 200, "ignore_eos": True}, id="end put off"),
        pytest.param({"logit_bias": {END_ID: 100.0, 0: 100.0}}, id="end wanted at once"),
        pytest.param({"top_p": 0.9, "top_k": 30, "repetition_penalty": 1.3}, id="cut short"),
        pytest.param({"stop": ("<|im_end|>", "\n\n\n\n\n\n")}, id="stop strings"),
    ],
)
async def test_answer_fits_the_schema_when_a_response_format_is_given(
    local: LocalBackend, seed: int, sampling: dict[str, Any]
) -> None:
    stream = await local.stream(
        ask(**{"max_tokens": 300, "temperature": 1.0, "seed": seed, "response_format": POINT_FORMAT, **sampling})
    )
    answer = text(await read(stream))
    assert stream.outcome is not None
    if stream.outcome.stop_reason is StopReason.STOP_STRING and stream.outcome.stop_string != "<|im_end|>":
        return
    assert stream.outcome.stop_reason in {StopReason.EOS, StopReason.STOP_STRING}
    point = json.loads(answer)
    assert list(point) == ["colour", "x", "on"]
    assert point["colour"] in {"red", "green", "blau\n€"}
    assert point["x"] in range(1, 100)
    assert len(point["on"]) <= 3
    assert all(isinstance(value, bool) for value in point["on"])


async def test_answer_is_the_beginning_of_its_json_when_its_length_cuts_it(local: LocalBackend) -> None:
    stream = await local.stream(ask(max_tokens=12, response_format=POINT_FORMAT))
    answer = text(await read(stream))
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.LENGTH
    assert answer.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer)


async def test_neighbours_say_what_they_would_alone_when_one_has_a_response_format(local: LocalBackend) -> None:
    free = {"max_tokens": 40, "temperature": 1.0, "seed": 6, "logit_bias": {END_ID: -100.0}}
    bound = {"max_tokens": 40, "temperature": 1.0, "seed": 7, "response_format": POINT_FORMAT}

    async def said(sampling: dict[str, Any]) -> str:
        return text(await read(await local.stream(ask(**sampling))))

    alone = [await said(free), await said(bound)]
    assert await asyncio.gather(said(free), said(bound), said(free), said(bound)) == alone * 2


async def test_response_format_is_refused_when_its_schema_cannot_be_carried_out(local: LocalBackend) -> None:
    unusable = ResponseFormat(kind="json_schema", schema={"type": "array", "uniqueItems": True})
    with pytest.raises(InvalidRequestError, match="uniqueItems") as caught:
        await local.stream(ask(response_format=unusable))
    assert caught.value.param == "response_format"


async def test_response_format_is_refused_when_it_takes_too_long(
    local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generation.backends.response_format.TIMEOUT_S", 0)
    with pytest.raises(InvalidRequestError, match="use a simpler schema") as caught:
        await local.stream(ask(response_format=POINT_FORMAT))
    assert caught.value.param == "response_format"


async def test_response_format_is_refused_when_tokens_have_no_bytes(make_local: MakeLocal, tiny_folder: Path) -> None:
    with_window = tiny_folder.parent / "tiny-with-window"
    shutil.copytree(tiny_folder, with_window)
    tokenizer = Tokenizer.from_file(str(with_window / "tokenizer.json"))
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("ß", "ss")])
    tokenizer.save(str(with_window / "tokenizer.json"))
    with pytest.raises(InvalidRequestError, match="no bytes for each token"):
        await make_local(model=str(with_window)).stream(ask(response_format=POINT_FORMAT))


def bare(prompt: str | tuple[int, ...], **sampling: Any) -> GenerationRequest:
    return GenerationRequest(model="default", messages=(), prompt=prompt, sampling=SamplingParams(**sampling))


class TestBarePrompt:
    async def test_is_the_text_alone_without_a_template(self, local: LocalBackend) -> None:
        stream = await local.stream(bare("Tea is", max_tokens=3))
        plain = local._text.result().prompt.tokenizer.encode("Tea is", add_special_tokens=False).ids
        assert stream.prompt_tokens == len(plain)
        await read(stream)
        again = await local.stream(bare(tuple(plain), max_tokens=3))
        await read(again)
        assert again.token_ids == stream.token_ids

    async def test_continues_the_text_and_proves_it(self, local: LocalBackend) -> None:
        stream = await local.stream(bare("Tea is", max_tokens=8, ignore_eos=True))
        deltas = await read(stream)
        proof = stream.prove(text(deltas), cut=False)
        assert proof is not None
        assert proof.verdict is not Verdict.DIFFERENT

    async def test_special_tokens_in_it_are_text(self, local: LocalBackend) -> None:
        stream = await local.stream(bare(SPECIAL_TOKENS[0], max_tokens=1))
        assert stream.prompt_tokens is not None
        assert stream.prompt_tokens > 1
        stream.cancel()

    @pytest.mark.parametrize("token_id", [-1, 10**6])
    async def test_is_refused_when_an_id_is_not_in_the_vocabulary(self, local: LocalBackend, token_id: int) -> None:
        with pytest.raises(
            InvalidRequestError, match=f"has the token {token_id}; this model's tokens are 0 to"
        ) as caught:
            await local.stream(bare((token_id,)))
        assert caught.value.param == "prompt"

    async def test_is_named_when_it_is_beyond_the_context(self, local: LocalBackend) -> None:
        with pytest.raises(InvalidRequestError, match=r"The prompt has 600 tokens.*Shorten the prompt") as caught:
            await local.stream(bare((1,) * 600))
        assert caught.value.param == "prompt"


def test_engine_is_refused_when_there_is_none_of_that_name() -> None:
    with pytest.raises(ValueError, match="torch, openvino"):
        LocalBackend("test", engine="steam")
