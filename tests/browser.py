"""A page in a headless browser: its screenshot, its errors, and the addresses it requests."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from matplotlib.image import imread

from tests.waiting import LONG

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
)
THEMES = {"dark": 0, "light": 1}


@dataclass
class Shown:
    """A page after it was shown.

    picture: float [height, width, 3], 0 is black.
    console: lines that the page or its policy wrote to the console.
    requests: addresses that the page requested, without those of the browser itself.
    """

    picture: np.ndarray
    console: list[str]
    requests: list[str]

    @property
    def background(self) -> np.ndarray:
        return self.picture[0, 0]

    @property
    def colours(self) -> int:
        """Number of colours in the picture; a blank page has one."""
        bytes_ = np.rint(255 * self.picture).astype(np.uint32)
        return len(np.unique(bytes_ @ np.array([1 << 16, 1 << 8, 1], np.uint32)))


def shown(
    url: str,
    folder: Path,
    *,
    width: int = 1400,
    height: int = 1000,
    theme: Literal["dark", "light"] = "light",
    milliseconds: int = 3_000,
) -> Shown:
    """Open a page in a new browser, with a profile in `folder`."""
    picture, requests = folder / "page.png", folder / "requests.json"
    done = subprocess.run(
        [
            CHROMIUM,
            *QUIET,
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={THEMES[theme]}",
            f"--window-size={width},{height}",
            f"--virtual-time-budget={milliseconds}",
            f"--log-net-log={requests}",
            f"--screenshot={picture}",
            url,
        ],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Shown(imread(picture)[..., :3], console, asked_for(json.loads(requests.read_text())))


def asked_for(log: dict) -> list[str]:
    """Addresses in a net log that a page requested."""
    parameters = [event.get("params", {}) for event in log["events"]]
    return [
        values["url"]
        for values in parameters
        if values.get("initiator", "not an origin") != "not an origin"
    ]
