"""The keys with which programs call ``/v1``."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ApiKey(models.Model):
    """A key ``prefix.secret`` of one user; only the secret's SHA-256 is kept. Null limits: the settings' defaults."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=32, unique=True)
    secret_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    minute_at = models.DateTimeField(null=True, blank=True, help_text="The minute that is being counted.")
    minute_requests = models.PositiveIntegerField(default=0)
    max_streams = models.PositiveIntegerField(null=True, blank=True, help_text="Open streams at once.")
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_day = models.PositiveIntegerField(null=True, blank=True, help_text="Prompt and answer together.")

    class Meta:
        ordering = ["-id"]
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"
