"""Ask a model from the shell: the answer streams to standard output, its figures go to standard error.

The stream is recorded like any other. On a terminal nothing in the answer can steer it; a pipe gets the bare text.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from generation.backends import backends
from generation.exceptions import GenerationError
from generation.models import Stream
from generation.output import StopReason
from generation.protocol.completion_request import completion_request
from generation.recording import get_writer
from generation.replay.ending import ending_line
from generation.replay.failures import told_in_words
from generation.replay.interrupt import EXIT_STATUS, on_interrupt
from generation.replay.options import add_request_options, request_fields
from generation.replay.readiness import make_ready
from generation.replay.terminal import carry_every_text, harmless
from generation.request import GenerationRequest
from generation.streaming import Generation, Origin, begin

STORE_TIMEOUT_S = 10.0


class Command(BaseCommand):
    help = "Ask a model and stream its answer to the terminal. Ctrl-C stops it and keeps what was said."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("prompt", help="what to ask; - reads it from standard input")
        parser.add_argument("--system", metavar="TEXT", help="how the model shall behave")
        add_request_options(parser)
        parser.epilog = 'Example: manage.py generate "Why is the sky blue?" --max-tokens 80'

    def handle(self, *, prompt: str, system: str | None, **options: Any) -> None:
        carry_every_text(self.stdout)
        with told_in_words():
            messages = [{"role": "system", "content": system}] if system else []
            messages.append({"role": "user", "content": _read_stdin() if prompt == "-" else prompt})
            if not messages[-1]["content"].strip():
                raise CommandError('The prompt is empty. Example: manage.py generate "What is tea?"')
            request = completion_request({**request_fields(options), "messages": messages}).generation
            make_ready(backends.resolve(request.model), self._tell)
            generation, failure = asyncio.run(self._answer(request))
            self._tell_ending(generation)
            if failure is not None:
                raise failure
            if generation.stop_reason is StopReason.CLIENT_STOP:
                sys.exit(EXIT_STATUS)

    async def _answer(self, request: GenerationRequest) -> tuple[Generation, GenerationError | None]:
        """Stream one answer to its end; its failure is returned, for after the figures.

        A slow terminal blocks this loop, in which nothing but its own answer runs.
        """
        generation = await begin(request, Origin(source="command"), received_at=time.monotonic())
        failure = None
        with on_interrupt(lambda: generation.stop(StopReason.CLIENT_STOP)):
            try:
                async for delta in generation:
                    self._show(delta.text)
            except GenerationError as exc:
                failure = exc
            finally:
                generation.close()
        if self.stdout.isatty() and not f"\n{generation.text}".endswith("\n"):
            self._show("\n")
        return generation, failure

    def _show(self, text: str) -> None:
        self.stdout.write(harmless(text) if self.stdout.isatty() else text, ending="")
        self.stdout.flush()

    def _tell_ending(self, generation: Generation) -> None:
        if get_writer().flush(STORE_TIMEOUT_S):
            self._tell(ending_line(Stream.objects.get(pk=generation.stream_id)))
        else:
            self._tell(f"stream {generation.stream_id}: the database does not answer, so its record is not complete.")

    def _tell(self, line: str) -> None:
        self.stderr.write(line, str)
        self.stderr.flush()


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as exc:
        raise CommandError(f"Standard input is not valid UTF-8 (at byte {exc.start}).") from exc
