"""From a name to a retriever: a folder with retriever.json, or the vectors of any encoder."""

import os

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.devices import compute_device
from sentemb_core.encoder.start import encoder_folder, start_encoder
from sentemb_core.retriever.folder import DENSE_ONLY, RETRIEVER, ROOT, load_retriever
from sentemb_core.retriever.retriever import Retriever


def start_retriever(name: str | os.PathLike[str]) -> Retriever:
    """Return the retriever of a folder, `minilm`, a Hugging Face name, or a file of word vectors.

    An encoder that is no retriever is one of its vectors alone. A Hugging Face name is downloaded
    unless HF_HUB_OFFLINE is 1.

    Raises:
        UsageError: the name of a registered model, with the way to its folder.
        MissingEncoderError: it is not on this machine.
        BadDataError, UnsafeModelError: it is damaged, or holds pickles or code.
    """
    name = os.fspath(name)
    folder = encoder_folder(name)
    if folder and (folder / RETRIEVER).is_file():
        return load_retriever(folder)
    encoder = start_encoder(EncoderConfig(name=name)).to(compute_device())
    return Retriever(DENSE_ONLY, {ROOT: encoder})
