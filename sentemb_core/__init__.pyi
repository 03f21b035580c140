"""The types of `sentemb_core`: a stub, so that no stage's code depends on the whole interface."""

from sentemb_core.api import Evaluation as Evaluation
from sentemb_core.api import Hit as Hit
from sentemb_core.api import Index as Index
from sentemb_core.api import Retriever as Retriever
from sentemb_core.api import evaluate as evaluate
from sentemb_core.api import load as load
from sentemb_core.api import read as read
