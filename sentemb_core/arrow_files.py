"""Arrow files of one record batch each, read by a map: what is looked at alone is loaded."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc


def write_arrow(path: Path, batch: Any) -> None:
    """A file of one record batch."""
    with ipc.new_file(path, batch.schema) as file:
        file.write_batch(batch)


def read_arrow(path: Path) -> Any:
    """The one record batch of a file; its buffers keep the map alive, the file is closed."""
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).get_batch(0)
