"""A flipped bit in any file of the home that is read back: refused, or without a meaning."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.sealed_files import KINDS, Sealed, sealed_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sealed]]:
    ours = logging.getLogger("sentemb_core")
    level = ours.level
    ours.setLevel(logging.ERROR)  # not a line a flip
    yield sealed_files(tmp_path_factory.mktemp("home"))
    ours.setLevel(level)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_changes_no_value(files: dict[str, Sealed], kind: str):
    written = list(files[kind].values())

    @given(bit=st.integers(0, 1 << 20))
    def values_are_written_ones(bit: int) -> None:
        for value in files[kind].accepted_after(bit):
            assert value in written

    values_are_written_ones()
