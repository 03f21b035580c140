from pathlib import Path

from sentemb_core.cli_arguments import require_order
from sentemb_core.config.run import BUILT_IN_ENCODERS
from sentemb_core.encoder.names import is_encoder_folder


def test_a_query_may_be_longer_than_any_path(tmp_path: Path):
    require_order("QUERY SOURCE", "a long question " * 400, str(tmp_path))
    require_order("QUERY SOURCE", "a\0b", str(tmp_path))


def test_a_folder_named_like_a_built_in_encoder_needs_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in BUILT_IN_ENCODERS:
        Path(name).mkdir()
        assert not is_encoder_folder(name)
        assert is_encoder_folder(f"./{name}")
