"""One tiny encoder for all networks."""

import pytest

from sentemb_core.encoder.encoder import Encoder
from tests.heads import made


@pytest.fixture
def encoder() -> Encoder:
    return made.encoder()
