"""What is deployed: each entry a lab note with its command, its cost and what it should give."""

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flows.demo import WAYS
from sentemb_core.types import Json

if TYPE_CHECKING:
    from prefect import Flow


@dataclass(frozen=True)
class Deployment:
    """A flow under a name, with its parameters and, if it runs by itself, its schedule.

    Attributes:
        flow: Where it lives, `package.module.function`; it is imported like any other code.
        cron: Minute, hour, day, month, weekday, in UTC; none: only when somebody asks.
    """

    name: str
    flow: str
    description: str
    parameters: Json = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    cron: str | None = None

    def load(self) -> "Flow[..., object]":
        """The flow itself."""
        module, _, function = self.flow.rpartition(".")
        return getattr(importlib.import_module(module), function)


NIGHTLY_DEMO = Deployment(
    name="nightly",
    flow="flows.demo.demo",
    cron="0 3 * * *",
    tags=("demo",),
    description="""Both ways to begin on 1,000 posts of the shipped corpus.

By hand: `python -m flows demo`, or `prefect deployment run demo/nightly`.
The first time it takes three minutes on two cores with units for bfloat16, twelve on others, then
seconds while corpus, code and settings stay the same: every stage is cached. A better encoder
becomes `@champion`, any other `@challenger`.
""",
)

BLOG_USGOV = Deployment(
    name="blog-usgov",
    flow="flows.infocse_idc.infocse_idc",
    parameters={"config": WAYS["nothing"].model_dump(mode="json")},
    tags=("blog-usgov", "from-nothing"),
    description="""One run whose every setting can be edited in the form; begins from nothing.

By hand: `python -m flows demo --only nothing`, or
`prefect deployment run infocse-idc/blog-usgov`.
A minute and a half on two cores, the first time.
""",
)

DEPLOYMENTS = (NIGHTLY_DEMO, BLOG_USGOV)
