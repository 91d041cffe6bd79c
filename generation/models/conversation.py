"""Conversations, and the tree of messages of each."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.urls import reverse

from generation.fields import LosslessTextField
from generation.querysets import ConversationQuerySet


class Conversation(models.Model):
    """A tree of messages that belongs to one user, or to one browser session where nobody is logged in."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="conversations"
    )
    session_key = models.CharField(max_length=40, blank=True, db_index=True)
    title = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at"]
        indexes = [
            models.Index(fields=["user", "-updated_at"], name="conversation_by_user"),
            models.Index(fields=["-updated_at"], name="conversation_last_used"),
        ]

    def __str__(self) -> str:
        # Not the title, which somebody wrote: this is what logs, histories and crumbs call the row.
        return f"conversation {self.id}"

    def get_absolute_url(self) -> str:
        return reverse("generation:conversation", args=[self.id])


class Message(models.Model):
    """One message; its parent is the message it answers, so that a conversation can branch."""

    class Role(models.TextChoices):
        SYSTEM = "system"
        USER = "user"
        ASSISTANT = "assistant"

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="children")
    role = models.CharField(max_length=16, choices=Role.choices)
    content = LosslessTextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.role} message {self.pk}"
