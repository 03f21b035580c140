"""Prefect's API and pages behind a guard: requests from pages of other sites are refused.

Prefect has no login, and whoever reaches its API can run code. Without the guard so could a page of
any site that is open in a browser of this machine: its scripts can send a POST to another site, or
have their own site's name lead to 127.0.0.1. The first shows in the request's `Origin`, the second
in its `Host`.

Run as a program, this file serves on an address: `python -m flows.prefect_app HOST PORT`.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

Scope = dict[str, Any]
Channel = Callable[..., Awaitable[Any]]
App = Callable[[Scope, Channel, Channel], Awaitable[None]]

ORIGINS = "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"
"""Prefect's setting: the origins that the server answers to, separated by commas."""


def own_origins(port: int) -> str:
    """Origins of a server on loopback, as a value of `ORIGINS`."""
    return f"http://127.0.0.1:{port},http://localhost:{port}"


def guarded(app: App, origins: str) -> App:
    """The app behind the guard: `Host`, and `Origin` if given, must be one of these."""
    own = origins.lower().split(",")
    hosts = {without_usual_port(urlsplit(origin).netloc) for origin in own}

    async def answer(scope: Scope, receive: Channel, send: Channel) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
            foreign = headers.get(b"origin", own[0]) not in own
            host = without_usual_port(headers.get(b"host", ""))
            if foreign or host not in hosts:
                from fastapi.responses import PlainTextResponse

                why = f"This server answers to {origins} alone, and to no page of another site.\n"
                await PlainTextResponse(why, 403)(scope, receive, send)
                return
        await app(scope, receive, send)

    return answer


def without_usual_port(address: str) -> str:
    """A host with its port, but for 80, which browsers leave out."""
    return address.removesuffix(":80")


def prefect_app() -> App:
    """Prefect's app behind the guard; without `ORIGINS` it answers nobody."""
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_CORS_ALLOWED_ORIGINS

    return guarded(create_app(final=True), PREFECT_SERVER_CORS_ALLOWED_ORIGINS.value())


if __name__ == "__main__":
    import uvicorn

    host, port = sys.argv[1:]
    uvicorn.run(prefect_app, factory=True, host=host, port=int(port), log_level="warning")
