"""What the bodies of both completion routes share: sampling fields with their ranges, and how a wrong one is told.

Nothing is silently ignored: an unknown field is an error here, a known one that the chosen backend does not carry out
is an error there (`GenerationRequest.asked_for` tells it). Numbers are finite and in range afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, NoReturn, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from generation.exceptions import InvalidRequestError
from generation.request import GenerationRequest, SamplingParams

MAX_LOGIT_BIAS = 300
MAX_METADATA = 16
MAX_CHOICES = 4

#: Fields that every backend carries out, because the spine does.
SPINE_FIELDS = frozenset({"model", "n", "stream", "stream_options", "user", "metadata"})

_NOTHING = {"presence_penalty": 0.0, "frequency_penalty": 0.0}


class Body(BaseModel):
    """Strict about types, and about fields that it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class StreamOptions(Body):
    include_usage: bool = False


def _as_list(stop: object) -> object:
    return [stop] if isinstance(stop, str) else stop


_StopString = Annotated[str, Field(min_length=1, max_length=500)]


class SamplingBody(Body):
    """The fields of both routes; null means the same as absent."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    stop: Annotated[
        Annotated[list[_StopString], Field(min_length=1, max_length=4)] | None, BeforeValidator(_as_list)
    ] = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    logit_bias: (
        Annotated[
            dict[
                Annotated[str, Field(pattern=r"^[0-9]{1,10}$")],
                Annotated[float, Field(ge=-100, le=100)],
            ],
            Field(max_length=MAX_LOGIT_BIAS),
        ]
        | None
    ) = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    user: Annotated[str, Field(max_length=200)] | None = None
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
            Field(max_length=MAX_METADATA),
        ]
        | None
    ) = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: Annotated[int, Field(ge=0, le=2**31)] | None = None

    @property
    def token_limit(self) -> int | None:
        """The most tokens that the answer may have."""
        return self.max_tokens

    @model_validator(mode="after")
    def _shared_fields_agree(self) -> Self:
        if self.stream_options is not None and not self.stream:
            refuse("stream_options", "'stream_options' is only allowed with 'stream': true.")
        limit = self.token_limit
        if self.min_tokens and limit and self.min_tokens > limit:
            refuse("min_tokens", f"'min_tokens' is {self.min_tokens}, more than the {limit} tokens allowed.")
        return self

    def sampling(self, **more: Any) -> SamplingParams:
        """The sampling parameters, with those that only one route has."""
        return SamplingParams(
            max_tokens=self.token_limit,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            seed=self.seed,
            logit_bias=MappingProxyType({int(token): bias for token, bias in (self.logit_bias or {}).items()}),
            stop=tuple(self.stop or ()),
            include_stop=bool(self.include_stop_str_in_output),
            min_tokens=self.min_tokens or 0,
            ignore_eos=bool(self.ignore_eos),
            **more,
        )

    def asked_for(self, *, spine_fields: frozenset[str], nothing: Mapping[str, object]) -> frozenset[str]:
        """The given fields that a backend must carry out; ``nothing`` are values by which clients ask for none."""
        given = self.model_dump(exclude_none=True)
        no_op = {**_NOTHING, **nothing}
        return frozenset(
            name
            for name, value in given.items()
            if name not in SPINE_FIELDS | spine_fields and not (name in no_op and value == no_op[name])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A parsed body: what to generate (one request for each prompt), and how the answers travel."""

    generations: tuple[GenerationRequest, ...]
    stream: bool
    include_usage: bool

    @property
    def generation(self) -> GenerationRequest:
        """What to generate for the only prompt, as a chat's messages are."""
        (generation,) = self.generations
        return generation


BodyT = TypeVar("BodyT", bound=Body)


def checked(body: type[BodyT], fields: Mapping[str, Any]) -> BodyT:
    """The fields as a body. Raises InvalidRequestError that names the first wrong one."""
    try:
        return body.model_validate(fields)
    except ValidationError as exc:
        raise _invalid(exc) from exc


def refuse(param: str, message: str, *, code: str | None = None) -> NoReturn:
    """Raise the error of one field, also from inside a validator."""
    # Not a ValueError: pydantic passes other exceptions through as they are.
    raise InvalidRequestError(message, param=param, code=code)


def _invalid(error: ValidationError) -> InvalidRequestError:
    """The first problem, told with its place: ``messages[0].role``."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    location = problem["loc"]
    param = str(location[0]) if location else None
    if problem["type"] == "extra_forbidden" and len(location) == 1:
        return InvalidRequestError(f"Unknown field '{param}'.", param=param, code="unknown_parameter")
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location[1:])
    message = problem["msg"].removeprefix("Value error, ")
    return InvalidRequestError(f"'{param}{place}' is not valid: {message}.", param=param)
