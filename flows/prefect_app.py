"""Prefect's API and pages behind a guard that refuses requests from pages of other sites.

Prefect has no login, and every client of its API can run code. Without the guard, so can any page
that is open in a browser of this machine: its scripts can send a POST to another site, or point
their site's name to 127.0.0.1. The request's `Origin` shows the first, its `Host` the second.
The pages themselves may call only their own server: with all of Prefect's telemetry switched off,
its second interface still calls a company's address.

Run as a program, this file serves on an address: `python -m flows.prefect_app HOST PORT`.
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

Scope = dict[str, Any]
Channel = Callable[..., Awaitable[Any]]
App = Callable[[Scope, Channel, Channel], Awaitable[None]]

ORIGINS = "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"
"""Prefect's setting: the allowed origins, separated by commas."""


def own_origins(port: int) -> str:
    """The origins of a server on loopback, as a value of `ORIGINS`."""
    return f"http://127.0.0.1:{port},http://localhost:{port}"


def guarded(app: App, origins: str) -> App:
    """The app behind the guard: the `Host`, and the `Origin` if given, must be in `origins`."""
    own = origins.lower().split(",")
    hosts = {without_usual_port(urlsplit(origin).netloc) for origin in own} - {""}
    policy = (b"content-security-policy", own_addresses_only(own).encode())

    async def answer(scope: Scope, receive: Channel, send: Channel) -> None:
        async def with_policy(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), policy]}
            await send(message)

        if scope["type"] in ("http", "websocket"):
            headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
            foreign = headers.get(b"origin", own[0]) not in own
            host = without_usual_port(headers.get(b"host", ""))
            if foreign or host not in hosts:
                from fastapi.responses import PlainTextResponse

                why = f"This server answers only {origins}, and no page of another site.\n"
                await PlainTextResponse(why, 403)(scope, receive, send)
                return
        await app(scope, receive, with_policy)

    return answer


def own_addresses_only(origins: Sequence[str]) -> str:
    """The policy of pages that load from, and send to, no other address."""
    sockets = [f"ws{origin.removeprefix('http')}" for origin in origins]
    known = " ".join(["'self' data: blob:", *origins, *sockets])
    return (
        f"default-src {known} 'unsafe-inline' 'unsafe-eval'; form-action 'self'; "
        "frame-ancestors 'self'"
    )


def without_usual_port(address: str) -> str:
    """A host with its port; browsers leave out port 80."""
    return address.removesuffix(":80")


def begin_as_writer() -> None:
    """Let every transaction of Prefect's SQLite wait for its turn when it begins.

    Prefect begins most as a reader. Where another one writes before it does, SQLite refuses it at
    once ("database is locked"): a wait could not end.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_transaction(self: Any, session: Any, with_for_update: bool = True) -> Any:
        return begin(self, session, True)

    AioSqliteConfiguration.begin_transaction = begin_transaction


def prefect_app() -> App:
    """Prefect's app behind the guard; without `ORIGINS` it refuses all requests."""
    begin_as_writer()
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_CORS_ALLOWED_ORIGINS

    return guarded(create_app(final=True), PREFECT_SERVER_CORS_ALLOWED_ORIGINS.value())


if __name__ == "__main__":
    import uvicorn

    host, port = sys.argv[1:]
    uvicorn.run(prefect_app, factory=True, host=host, port=int(port), log_level="warning")
