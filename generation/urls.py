"""Routes of the chat page, the OpenAI API and health."""

from django.contrib.auth.views import LoginView, LogoutView
from django.templatetags.static import static
from django.urls import path
from django.views.generic import RedirectView

from generation.views.catalog import healthz, metrics, model_detail, model_list, readyz, unknown_route
from generation.views.completions import chat_completions, text_completions
from generation.views.pages import chat, chat_state, chat_stream
from generation.views.stop import chat_stop

# Browsers ask for it where a page names no icon, as the admin's.
favicon = RedirectView.as_view(url=static("generation/icon.svg"))

app_name = "generation"
urlpatterns = [
    path("", chat, name="chat"),
    path("c/<uuid:conversation_id>/", chat, name="conversation"),
    path("chat/stream/", chat_stream, name="chat-stream"),
    path("chat/stop/", chat_stop, name="chat-stop"),
    path("chat/state/<uuid:conversation_id>/", chat_state, name="chat-state"),
    path("login/", LoginView.as_view(template_name="generation/login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("v1/chat/completions", chat_completions, name="chat-completions"),
    path("v1/completions", text_completions, name="completions"),
    path("v1/models", model_list, name="models"),
    path("v1/models/<path:model>", model_detail, name="model"),
    path("v1/<path:rest>", unknown_route),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("favicon.ico", favicon),
]
