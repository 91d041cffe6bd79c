"""Registers the app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class GenerationConfig(AppConfig):
    """Streams, their records, and the pages to read them."""

    name = "generation"
    verbose_name = "Generation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from generation import checks  # noqa: F401  (registers the system checks)
        from generation.text_index import index_inserted, keep_triggers

        post_migrate.connect(keep_triggers, sender=self)
        post_save.connect(index_inserted, sender="generation.Stream")
