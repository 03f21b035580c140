"""A dry run on the terminal: one line per stage, or per part if there are many."""

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx
import pytest

from flows.cli.evaluate import make_folder
from flows.cli.execute import MANY, run_flow, show_dry_run, with_or_without_prefect
from sentemb_core.errors import ServerLostError, UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, runs_of_this_process
from sentemb_core.store.status import Status
from tasks.execution import DryRun, current_executor
from tasks.run_monitor import recorded


class Flow:
    """Runs that end while Prefect's server lives; then the next one does not."""

    def __init__(self, names: list[str], survive: int) -> None:
        self.names, self.survive = names, survive

    def __call__(self) -> list[str]:
        self.survive -= 0 if current_executor() else 1
        return [self.run(place, name) for place, name in enumerate(self.names)]

    def run(self, place: int, name: str) -> str:
        with recorded(name, {"name": name}) as log:
            if current_executor() is None and place >= self.survive:
                raise httpx.ConnectError("All connection attempts failed")
            return log.run.id


@pytest.mark.parametrize(
    ("names", "survive", "states"),
    [
        (["one"], 1, {"one": ["completed"]}),  # it continues its own record
        (["one"], 2, {"one": ["completed"]}),  # nothing happens
        (["one", "two"], 1, {"one": ["completed"], "two": ["completed"]}),
        (["one", "two"], 2, {"one": ["completed"] * 2, "two": ["completed", "failed"]}),
    ],
)
def test_a_run_goes_on_without_a_server_that_is_gone(
    home: Path, monkeypatch, names: list[str], survive: int, states: dict[str, list[str]]
):
    monkeypatch.setattr("flows.cli.execute.served", lambda *_: nullcontext())
    ids = with_or_without_prefect(Flow(names, survive), home / "server.log")
    found: dict[str, list[str]] = {}
    for run in last_runs(Store.default()):
        found.setdefault(run.config["name"], []).append(run.state)
    assert {name: sorted(of) for name, of in found.items()} == states
    assert len(set(ids)) == len(names)
    assert set(ids) <= set(runs_of_this_process())


def test_a_server_that_does_not_start_stops_no_run(home: Path, monkeypatch):
    def served(*_):
        raise ServerLostError("did not start")

    monkeypatch.setattr("flows.cli.execute.served", served)
    assert with_or_without_prefect(lambda: current_executor() is not None, home / "server.log")


@pytest.mark.parametrize(("computes", "address"), [(False, ""), (True, ""), (False, "http://up")])
def test_no_server_starts_for_a_run_that_computes_nothing(
    home: Path, monkeypatch, computes: bool, address: str
):
    asked: list[Path] = []

    @contextmanager
    def served(log: Path, _):
        asked.append(log)
        yield

    monkeypatch.setattr("flows.cli.execute.served", served)
    monkeypatch.setenv("PREFECT_API_URL", address)
    alone = run_flow(lambda: current_executor() is not None, computes=computes)
    assert alone == (not asked) == (not computes and not address)


def test_an_error_of_the_run_itself_is_its_end(home: Path, monkeypatch):
    monkeypatch.setattr("flows.cli.execute.served", lambda *_: nullcontext())
    with pytest.raises(KeyError):
        with_or_without_prefect(lambda: {}["absent"], home / "server.log")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]):
    """Lines of the table of these stages, without the heading."""

    def shown(*stages: Status) -> list[list[str]]:
        plan = DryRun()
        plan.statuses = [*stages]
        assert show_dry_run(plan, as_json=False) == 0
        table = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert show_dry_run(plan, as_json=True) == 0
        assert len(json.loads(capsys.readouterr().out)) == len(stages)
        return table

    return shown


def test_a_small_dry_run_has_a_line_per_stage(lines):
    table = lines(Status("read", "HIT", "", "one"), Status("train", "MISS", "first time", "one"))
    assert table[:2] == [["one", "read", "HIT"], ["train", "MISS", "first", "time"]]
    assert table[2][:3] == ["1", "of", "2"]


def test_a_large_dry_run_has_a_line_per_part_and_counts_shared_stages_once(lines):
    kept = [Status("read", "HIT", "", "kept") for _ in range(MANY)]
    due = [
        Status("read", "HIT", "", "due"),
        Status("train", "MISS", "training.steps 300 -> 400", "due"),
        Status("score", "AFTER", "train", "due"),
        Status("score", "AFTER", "train", "due"),
    ]
    later = [Status("score", "AFTER", "train", "later")]
    again = [Status("train", "SAME", "due", "more"), Status("score", "MISS", "first time", "more")]
    shared = [Status("train", "SAME", "due", "equal")]
    refused = [Status("read", "HIT", "", "no"), Status("", "REFUSED", "E303 no head", "no")]
    *parts, summary = lines(*kept, *due, *later, *again, *shared, *refused)
    assert [" ".join(line) for line in parts] == [
        f"kept 0 of {MANY}",
        "due 3 of 4 train, score x2 training.steps 300 -> 400",
        "later 1 of 1 score after train",
        "more 1 of 1 score first time",
        "equal shared same stages as due",
        "no refused E303 no head",
    ]
    assert summary[:3] == ["5", "of", str(MANY + 7)]
    assert [word for word in summary[3:] if word.isdigit()] == ["1"], "one part is refused"


@pytest.mark.parametrize("others", [0, MANY])
def test_brackets_in_a_reason_are_text(lines, others: int):
    why = "corpus.id_column [id] -> [/id]"
    table = lines(*[Status("read", "MISS", why, "one")] * (1 + others))
    assert why in " ".join(table[0])


def test_only_an_earlier_table_is_overwritten(tmp_path: Path):
    (tmp_path / "table.csv").write_text("mine")
    with pytest.raises(UsageError, match=r"E001 .*table\.csv"):
        make_folder(str(tmp_path))
    table = {"run": "benchmark-1", "models": {}, "rows": []}
    (tmp_path / "table.json").write_text(json.dumps(table))
    make_folder(str(tmp_path))
