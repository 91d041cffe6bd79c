"""Django settings. What may differ between machines comes from `streamsite.env`; the rest is decided here."""

from __future__ import annotations

from csp.constants import NONE, SELF

from streamsite.env import BASE_DIR, read_environment

ENV = read_environment()

DEBUG = ENV.debug
SECRET_KEY = ENV.secret_key
ALLOWED_HOSTS = ENV.allowed_hosts
CSRF_TRUSTED_ORIGINS = ENV.csrf_trusted_origins

INSTALLED_APPS = [
    "daphne",  # before staticfiles: it makes `runserver` an ASGI server
    "channels",
    "servestatic",
    "csp",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "generation",
]

# Async-capable only: a sync middleware would consume a stream before its first byte.
MIDDLEWARE = [
    "generation.middleware.release_connection",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "streamsite.urls"
ASGI_APPLICATION = "streamsite.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": ENV.database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": (
        {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [ENV.redis_url]}}
        if ENV.redis_url
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "generation:login"
LOGIN_REDIRECT_URL = "generation:chat"
LOGOUT_REDIRECT_URL = "generation:chat"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = ENV.var / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Straight from the sources in the demo; in production `collectstatic` fills STATIC_ROOT.
SERVESTATIC_USE_FINDERS = DEBUG
SERVESTATIC_AUTOREFRESH = DEBUG

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "connect-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
if not DEBUG:
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname:7} {name}: {message}", "style": "{"}},
    # A probe that finds the server not ready is an answer, not an error, and it comes every few seconds.
    "filters": {
        "no_probes": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: "/readyz" not in record.getMessage(),
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_probes"]}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        # Without Django's own handlers, which would print every line twice in the demo.
        "django": {"level": "WARNING"},
        # A traceback a second while Redis is away; `generation.broadcast` says so once.
        "channels_redis": {"level": "CRITICAL"},
        "generation": {"level": ENV.log_level},
        "streamsite": {"level": ENV.log_level},
    },
}

# --- Streamsite -------------------------------------------------------------------------------------------------------

STREAMSITE_VAR = ENV.var
#: A local folder, GGUF file or hub id; empty means the bundled model.
STREAMSITE_MODEL = ENV.model
#: What computes it: torch or openvino.
STREAMSITE_ENGINE = ENV.engine
STREAMSITE_WEIGHTS = ENV.weights
#: Whether people without an account may chat (each browser session owns its conversations).
STREAMSITE_ANONYMOUS = ENV.anonymous
STREAMSITE_MAX_STREAM_S = ENV.max_stream_s
STREAMSITE_KEEP_ALIVE_S = ENV.keep_alive_s
#: Open streams in this process; further ones get 429.
STREAMSITE_MAX_STREAMS = ENV.max_streams
#: Seconds after which a stream whose reader takes nothing ends.
STREAMSITE_SLOW_READER_S = ENV.slow_reader_s
#: Tokens of prompts and answers that have room in the engine at once; 0 lets the engine choose.
STREAMSITE_KV_TOKENS = ENV.kv_tokens
#: Open streams of one user of the page, or of one anonymous session; 0 for no limit, as in the next three.
STREAMSITE_USER_MAX_STREAMS = ENV.user_max_streams
#: What an API key may do unless it has limits of its own.
STREAMSITE_KEY_MAX_STREAMS = ENV.key_max_streams
STREAMSITE_KEY_REQUESTS_PER_MINUTE = ENV.key_requests_per_minute
STREAMSITE_KEY_TOKENS_PER_DAY = ENV.key_tokens_per_day
#: Longest request body in bytes, and how long it may take to come.
STREAMSITE_MAX_BODY_BYTES = ENV.max_body_bytes
STREAMSITE_BODY_TIMEOUT_S = ENV.body_timeout_s
DATA_UPLOAD_MAX_MEMORY_SIZE = STREAMSITE_MAX_BODY_BYTES
#: Whether prompts, answers and deltas are stored; figures always are.
STREAMSITE_STORE_TEXT = ENV.store_text
#: Age at which `prune_streams` deletes streams when it is not told one; 0: it must be told.
STREAMSITE_RETENTION_DAYS = ENV.retention_days
#: What a stream can be labelled with, by the keys 1 to 5.
STREAMSITE_REVIEW_LABELS = ENV.review_labels
#: How long open streams get for their last frame after SIGTERM.
STREAMSITE_DRAIN_S = 5.0
#: Worker rows beat this often; a worker that missed three beats is dead and its running streams are lost.
STREAMSITE_HEARTBEAT_S = 3.0
#: The rights of whoever watches the live page are read again this often.
STREAMSITE_RIGHTS_CHECK_S = 30.0

GENERATION_BACKENDS = {
    "default": (
        {
            "BACKEND": "generation.backends.upstream.UpstreamBackend",
            "OPTIONS": {
                "base_url": ENV.upstream_url,
                "key": ENV.upstream_key,
                "kind": ENV.upstream_kind,
                "models": ENV.upstream_models,
            },
        }
        if ENV.upstream_url
        else {"BACKEND": "generation.backends.local.LocalBackend"}
    ),
    "demo-scripts": {"BACKEND": "generation.backends.scripted.DemoScriptsBackend"},
}
