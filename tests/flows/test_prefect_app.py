"""Which requests to our Prefect server the guard refuses."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from flows.prefect_app import begin_as_writer, guarded, own_origins

OWN = own_origins(4200)


def status_of(kind: str = "http", origins: str = OWN, **headers: str) -> int | None:
    """The status of the guard's refusal; None if the app behind it was called."""
    called, sent = [], []

    async def app(scope, receive, send):
        called.append(scope)

    async def send(message):
        sent.append(message)

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "method": "POST", "path": "/api/automations/", "headers": encoded}
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
def test_other_origins_and_other_host_names_are_refused(kind, headers):
    assert status_of(kind, **headers) == 403


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
def test_programs_and_own_pages_pass(kind, headers):
    assert status_of(kind, **headers) is None


def test_an_operator_can_add_an_origin_but_not_a_star():
    proxied = f"{OWN},https://prefect.example.org"
    page = {"host": "prefect.example.org", "origin": "https://prefect.example.org"}
    assert status_of(origins=proxied, **page) is None
    assert status_of(origins="*", host="127.0.0.1:4200") == 403
    assert status_of(origins="*") == 403


def test_port_80_may_be_left_out():
    assert status_of(origins=own_origins(80), host="127.0.0.1") is None


def test_pages_load_from_and_send_to_their_own_server_only():
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"page"})

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(b"host", b"127.0.0.1:4200")],
    }
    asyncio.run(guarded(app, OWN)(scope, None, send))
    start, body = sent
    assert body["body"] == b"page"
    headers = dict(start["headers"])
    assert headers[b"a"] == b"b"
    default, *_ = headers[b"content-security-policy"].decode().split("; ")
    addresses = {source for source in default.split() if "//" in source or "*" in source}
    assert addresses == {*OWN.split(","), "ws://127.0.0.1:4200", "ws://localhost:4200"}


def test_lifespan_messages_pass_the_guard():
    assert status_of("lifespan") is None


@pytest.mark.parametrize("begins", ["as a reader", "as a writer"])
def test_writers_of_prefects_database_wait_for_each_other(tmp_path: Path, monkeypatch, begins: str):
    """Two that have read before either writes: SQLite refuses the second at once."""
    from prefect.server.database.configurations import AioSqliteConfiguration

    original = AioSqliteConfiguration.begin_transaction
    monkeypatch.setattr(AioSqliteConfiguration, "begin_transaction", original)  # restored later
    if begins == "as a writer":
        begin_as_writer()
    database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")

    async def add(engine, both_have_read: asyncio.Barrier) -> None:
        session = await database.session(engine)
        async with session, database.begin_transaction(session):
            await session.execute(sa.text("SELECT sum(n) FROM t"))
            with suppress(TimeoutError):  # the second begins when the first has ended
                await asyncio.wait_for(both_have_read.wait(), 0.2)
            await session.execute(sa.text("UPDATE t SET n = n + 1"))

    async def added() -> tuple[int, int]:
        engine = await database.engine()
        async with engine.begin() as connection:
            await connection.execute(sa.text("CREATE TABLE t (n INTEGER)"))
            await connection.execute(sa.text("INSERT INTO t VALUES (0)"))
        met = asyncio.Barrier(2)
        ends = await asyncio.gather(add(engine, met), add(engine, met), return_exceptions=True)
        async with engine.connect() as connection:
            total = (await connection.execute(sa.text("SELECT n FROM t"))).scalar_one()
        await engine.dispose()
        return total, sum("database is locked" in str(end) for end in ends)

    assert asyncio.run(added()) == ((1, 1) if begins == "as a reader" else (2, 0))
