from pathlib import Path

from sentemb_core.places import require_order


def test_a_query_may_be_longer_than_any_path_and_is_no_file_then(tmp_path: Path):
    require_order("QUERY SOURCE", "a long question " * 400, str(tmp_path))
    require_order("QUERY SOURCE", "a\0b", str(tmp_path))
