"""Answers: values of the façade as JSON with their schema, and errors as `application/problem+json`.

A route is a typed function that returns a value of the façade. `TypedRoute` encodes it with msgspec, in the thread that
computed it, and `openapi_document` describes it by its return type. Nothing is copied into a second set of models.
"""

import inspect
import logging
from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, get_type_hints

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tapebook.domain.text import redact_passwords
from tapebook.errors import BadInput, Busy, ConfigError, Fix, HomeError, Retry, SpendLimit, Stop, UnknownName
from tapebook.errors import TapebookError as Error

_LOG = logging.getLogger("tapebook.http")
PROBLEM_JSON = "application/problem+json"
RETRY_SECONDS = 1


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a request, and what to do about it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


# The first kind that fits an error counts: its status, its name, and the remedy in words of HTTP.
_KINDS: tuple[tuple[type[Error], int, str, str], ...] = (
    (UnknownName, 404, "unknown-name", "use a name that the lists have: /api/v1/agents, /api/v1/assets, /api/v1/runs"),
    (BadInput, 422, "bad-input", "change what the detail names and send it again"),
    (HomeError, 409, "in-use", "end what uses it, or send it again when that has ended"),
    (ConfigError, 500, "settings", "correct tapebook.toml on the server and start it again"),
    (Fix, 422, "refused", "change what the detail names and send it again"),
    (Busy, 503, "busy", "send it again"),
    (Retry, 503, "retry", "send it again"),
    (SpendLimit, 409, "spend-limit", "raise the limit on the server"),
    (Stop, 500, "stopped", "a person has to look at the server: run `tapebook doctor` and `tapebook verify` there"),
    (Error, 500, "error", "run `tapebook doctor` on the server"),
)
_TITLES = {404: "Not found", 409: "Conflict", 422: "Cannot be used", 500: "Server problem", 503: "Try again"}
_HTTP_REMEDIES = {
    401: "send `Authorization: Bearer TOKEN`; `tapebook tokens add NAME` on the server makes one",
    403: "ask the owner of the home for a token with that scope",
    409: "read what stands with a GET, and give another write a key of its own",
}
_UNEXPECTED = Problem(
    *("urn:tapebook:problem:unexpected", "Server problem", 500),
    *("the server met an error that nobody expected", "its log has the cause; report it with the request"),
)


def problem_of(error: Error) -> Problem:
    """An error of the façade as a problem."""
    _, status, name, remedy = next(each for each in _KINDS if isinstance(error, each[0]))
    detail = redact_passwords(str(error))
    return Problem(f"urn:tapebook:problem:{name}", _TITLES[status], status, detail, remedy)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """A problem as the answer to a request."""
    # Clients that know the header wait by themselves.
    more = {"retry-after": str(RETRY_SECONDS)} if problem.status == 503 else {}
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, media_type=PROBLEM_JSON, headers=more | (headers or {}))


def json_response(value: Any, status: int = 200) -> Response:
    """A value of the façade as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


class TypedRoute(APIRoute):
    """A route whose function returns a value of the façade."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.gives: Any = get_type_hints(inspect.unwrap(endpoint)).get("return")
        super().__init__(path, _encoding_endpoint(endpoint), **(options | {"response_model": None}))


def _encoding_endpoint(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    # Async routes write their answers themselves: they are those that stream.
    if inspect.iscoroutinefunction(endpoint):
        return endpoint

    @wraps(endpoint)
    def answer(*args: Any, **named: Any) -> Response:
        found = endpoint(*args, **named)
        return found if isinstance(found, Response) else json_response(found)

    return answer


def install_problem_handlers(app: FastAPI) -> None:
    """Has every error of the application answered as a problem."""

    async def handle_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, Error)
        problem = problem_of(error)
        # What the caller can put right is no event of the server.
        if problem.status == 500:
            _LOG.error("request failed", exc_info=error, extra={"fields": {"path": request.url.path}})
        return problem_response(problem)

    async def handle_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        remedy = "see /api/v1/openapi.json for what this route takes"
        return problem_response(Problem("urn:tapebook:problem:bad-request", "Cannot be read", 422, told, remedy))

    async def handle_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        detail = f"{request.method} {request.url.path}: {error.detail}"
        remedy = _HTTP_REMEDIES.get(error.status_code, "see /api/v1/openapi.json for the routes there are")
        found = Problem("about:blank", title, error.status_code, detail, remedy)
        return problem_response(found, dict(error.headers or {}))

    async def handle_unexpected(request: Request, error: Exception) -> Response:
        _LOG.error("unexpected error", exc_info=error, extra={"fields": {"path": request.url.path}})
        return problem_response(_UNEXPECTED)

    app.add_exception_handler(Error, handle_known)
    app.add_exception_handler(RequestValidationError, handle_invalid)
    app.add_exception_handler(HTTPException, handle_http)
    app.add_exception_handler(Exception, handle_unexpected)


def openapi_document(app: FastAPI, routes: Iterable[TypedRoute], *, prefix: str) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with the schemas of what routes give and of problems."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    # A schema is asked for once per type, so that types with parts in common share components.
    typed = [route for route in routes if route.gives not in (None, Response) and route.include_in_schema]
    kinds = list({repr(route.gives): route.gives for route in typed}.values())
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template="#/components/schemas/{name}")
    own = found.setdefault("components", {}).setdefault("schemas", {})
    own |= components
    own.pop("HTTPValidationError", None)
    own.pop("ValidationError", None)
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=False)}
    for route in typed:
        for method in route.methods or ():
            responses = found["paths"][f"{prefix}{route.path_format}"][method.lower()]["responses"]
            status = str(route.status_code or 200)
            responses[status] = {
                "description": responses.get(status, {}).get("description", "The answer"),
                "content": {"application/json": {"schema": by_kind[repr(route.gives)]}},
            }
    _describe_problems(found)
    return found


def _describe_problems(document: dict[str, Any]) -> None:
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in document["paths"].values():
        for operation in path.values():
            # FastAPI's own form of a validation error is not what is sent here.
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "A problem, with its remedy", "content": content}
