"""The deployments, each with the command that does the same, its duration and its result."""

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flows.demo import WAYS
from sentemb_core.types import Json

if TYPE_CHECKING:
    from prefect import Flow


@dataclass(frozen=True)
class Deployment:
    """A flow under a name, with parameters and perhaps a schedule.

    Attributes:
        flow: Its import path, `package.module.function`.
        cron: Minute, hour, day, month, weekday, in UTC; None: runs only on request.
    """

    name: str
    flow: str
    description: str
    parameters: Json = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    cron: str | None = None

    def load(self) -> "Flow[..., object]":
        """Import the flow."""
        module, _, function = self.flow.rpartition(".")
        return getattr(importlib.import_module(module), function)


NIGHTLY_DEMO = Deployment(
    name="nightly",
    flow="flows.demo.demo",
    cron="0 3 * * *",
    tags=("demo",),
    description="""InfoCSE-IDC from two start encoders, on 1,000 posts of the shipped corpus.

By hand: `python -m flows demo`, or `prefect deployment run demo/nightly`.
The first run takes some minutes on two cores. A run with the same corpus, code and settings takes
seconds: every stage is cached. A better encoder becomes `@champion`, any other `@challenger`.
""",
)

BLOG_USGOV = Deployment(
    name="blog-usgov",
    flow="flows.infocse_idc.infocse_idc",
    parameters={"config": WAYS["nothing"].model_dump(mode="json")},
    tags=("blog-usgov", "from-nothing"),
    description="""One run from random vectors; all settings can be edited in the form.

By hand: `python -m flows demo --only nothing`, or
`prefect deployment run infocse-idc/blog-usgov`.
The first run takes a few minutes on two cores.
""",
)

DEPLOYMENTS = (NIGHTLY_DEMO, BLOG_USGOV)
