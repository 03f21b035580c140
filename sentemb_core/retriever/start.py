"""From a name to a retriever: a folder with retriever.json, or the vectors of any encoder."""

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.devices import compute_device
from sentemb_core.encoder.start import encoder_folder, start_encoder
from sentemb_core.retriever.folder import DENSE_ONLY, RETRIEVER, ROOT, load_retriever
from sentemb_core.retriever.retriever import Retriever


def start_retriever(name: str) -> Retriever:
    """Return the retriever of a folder, `minilm`, a published name or a file of word vectors.

    An encoder without retriever.json gives a retriever of its vectors alone.

    Raises:
        BadDataError: as `load_retriever`.
        UsageError, MissingEncoderError, UnsafeModelError: as `start_encoder`.
    """
    folder = encoder_folder(name)
    if folder and (folder / RETRIEVER).is_file():
        return load_retriever(folder)
    encoder = start_encoder(EncoderConfig(name=name)).to(compute_device())
    return Retriever(DENSE_ONLY, {ROOT: encoder})
