from pathlib import Path

from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording
from tasks.doctor import orphans


def process(folder: Path, pid: int, *environment: str) -> None:
    (folder / str(pid)).mkdir(parents=True)
    (folder / str(pid) / "environ").write_bytes("\0".join(environment).encode())


def test_a_server_that_a_killed_run_left_is_told_with_the_way_out(home, tmp_path):
    listed = tmp_path / "proc"
    process(listed, 1, "PREFECT__SERVER_EPHEMERAL=1", "SENTEMB_HOME=/another")
    process(listed, 2, f"SENTEMB_HOME={home}")
    process(listed, 31, "PREFECT__SERVER_EPHEMERAL=1", f"SENTEMB_HOME={home}")
    (listed / "4").mkdir()  # gone meanwhile
    (left,) = orphans(home, listed)
    assert (left.ok, left.found) == (False, "end it: kill 31")
    with recording(Store(home), "run", [], {}):
        assert orphans(home, listed) == [], "it is this run's"
