"""Who may call a Prefect server of ours, and who is refused before Prefect hears of it."""

import asyncio

import pytest

from flows.prefect_app import guarded, own_origins

OWN = own_origins(4200)


def answered(kind: str = "http", origins: str = OWN, **headers: str) -> int | None:
    """The status of the guard's refusal; none where the app behind it was called."""
    called, sent = [], []

    async def app(scope, receive, send):
        called.append(scope)

    async def send(message):
        sent.append(message)

    told = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "method": "POST", "path": "/api/automations/", "headers": told}
    asyncio.run(guarded(app, origins)(scope, None, send))
    assert bool(called) != bool(sent)
    return None if called else sent[0]["status"]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:4200", "origin": "http://evil.example"},
        {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:5000"},
        {"host": "127.0.0.1:4200", "origin": "null"},
        {"host": "evil.example:4200", "origin": "http://evil.example:4200"},
        {"host": "evil.example:4200"},
        {"host": "127.0.0.1.evil.example:4200"},
        {"host": "127.0.0.1"},
        {},
    ],
)
def test_a_page_of_another_site_and_another_name_for_this_machine_are_refused(kind, headers):
    assert answered(kind, **headers) == 403


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:4200"},
        {"host": "LOCALHOST:4200"},
        {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4200"},
        {"host": "127.0.0.1:4200", "origin": "http://localhost:4200"},
    ],
)
def test_programs_and_the_pages_themselves_are_answered(kind, headers):
    assert answered(kind, **headers) is None


def test_an_address_that_the_operator_names_is_one_of_the_server_and_no_star_is():
    proxied = f"{OWN},https://prefect.example.org"
    page = {"host": "prefect.example.org", "origin": "https://prefect.example.org"}
    assert answered(origins=proxied, **page) is None
    assert answered(origins="*", host="127.0.0.1:4200") == 403


def test_a_port_that_is_the_protocols_own_may_be_left_out():
    assert answered(origins=own_origins(80), host="127.0.0.1") is None


def test_the_start_and_the_end_of_the_server_pass_the_guard():
    assert answered("lifespan") is None
