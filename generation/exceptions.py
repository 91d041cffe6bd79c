"""One tree of errors; each class knows its HTTP status and its OpenAI error type.

    GenerationError                    500 server_error
    ├── InvalidRequestError            400 invalid_request_error   param names the field
    │   ├── MethodNotAllowedError      405
    │   ├── RequestTimeoutError        408
    │   ├── RequestTooLargeError       413
    │   └── UnsupportedMediaTypeError  415
    ├── AuthenticationError            401 authentication_error
    ├── PermissionDeniedError          403 permission_error
    ├── NotFoundError                  404 invalid_request_error
    │   └── ModelNotFoundError         404 invalid_request_error   code model_not_found
    ├── RateLimitError                 429 rate_limit_error        code rate_limit_exceeded, Retry-After
    ├── BackendUnavailableError        503 server_error            model failed to load
    │   └── ServerShutdownError        503 server_error            stop reason server_shutdown
    ├── StoppedByStaffError            503 server_error            stop reason client_stop
    ├── GenerationTimeoutError         504 server_error            stop reason timeout
    ├── EngineError                    500 server_error            stop reason engine_error
    └── UpstreamError                  502 server_error            stop reason upstream_error
        └── UpstreamTruncatedError     502 server_error            stop reason upstream_truncated

Messages are for the caller: what was wrong, what was got, what would be right. They never hold prompts or keys.
"""

from __future__ import annotations

from typing import ClassVar

from generation.output import StopReason


class GenerationError(Exception):
    """Base of everything this project raises on purpose.

    ``param`` names the request field at fault; ``code`` is the finer machine-readable word; both may be None.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    #: What a stream's record says when this error ends it.
    stop_reason: StopReason = StopReason.ENGINE_ERROR

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code if code is not None else self.default_code


class InvalidRequestError(GenerationError):
    """The request cannot be carried out as it is; ``param`` says which field."""

    status = 400
    type = "invalid_request_error"


class MethodNotAllowedError(InvalidRequestError):
    """The path exists, but not for this HTTP method."""

    status = 405
    default_code = "method_not_allowed"


class RequestTimeoutError(InvalidRequestError):
    """The body took too long to come."""

    status = 408
    default_code = "request_timeout"


class RequestTooLargeError(InvalidRequestError):
    """The body is larger than the server accepts."""

    status = 413
    default_code = "request_too_large"


class UnsupportedMediaTypeError(InvalidRequestError):
    """The body is not declared as JSON."""

    status = 415
    default_code = "unsupported_media_type"


class AuthenticationError(GenerationError):
    """No valid credentials."""

    status = 401
    type = "authentication_error"
    default_code = "invalid_api_key"


class PermissionDeniedError(GenerationError):
    """Known caller, not allowed."""

    status = 403
    type = "permission_error"


class NotFoundError(GenerationError):
    """No such object for this caller."""

    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class ModelNotFoundError(NotFoundError):
    """No configured backend serves a model of this name."""

    default_code = "model_not_found"


class RateLimitError(GenerationError):
    """A limit is reached; try again after ``retry_after_s`` seconds."""

    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after_s: int = 1, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.retry_after_s = retry_after_s


class BackendUnavailableError(GenerationError):
    """The backend cannot serve now: its model failed to load, or the server is shutting down."""

    status = 503
    default_code = "backend_unavailable"


class GenerationTimeoutError(GenerationError):
    """The stream reached the longest time a stream may take."""

    status = 504
    default_code = "timeout"
    stop_reason = StopReason.TIMEOUT


class ServerShutdownError(BackendUnavailableError):
    """The server is going away while the stream runs."""

    default_code = "server_shutdown"
    stop_reason = StopReason.SERVER_SHUTDOWN


class StoppedByStaffError(GenerationError):
    """Staff stopped the stream; its reader must not take the text for whole."""

    status = 503
    default_code = "stopped_by_staff"
    stop_reason = StopReason.CLIENT_STOP


class EngineError(GenerationError):
    """The in-process engine failed on this sequence."""

    default_code = "engine_error"


class UpstreamError(GenerationError):
    """The upstream server failed; ``code`` says how."""

    status = 502
    default_code = "upstream_error"
    stop_reason = StopReason.UPSTREAM_ERROR


class UpstreamTruncatedError(UpstreamError):
    """The upstream server's answer ended without saying why."""

    default_code = "upstream_truncated"
    stop_reason = StopReason.UPSTREAM_TRUNCATED
