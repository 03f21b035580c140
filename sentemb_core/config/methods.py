"""Settings of every method. Each description gives the source of its default.

Where paper and code differ, the methods index (methods/README.md) says which one a default follows,
and `config/presets.py` has the other. Errata are rows of docs/errata.md.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from sentemb_core.types import Config

Rate = Annotated[float, Field(ge=0, lt=1)]
Temperature = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
SHORTEST_CONTEXT = 16
"""Tokens of an average sentence; a shorter context is only a piece of a sentence."""

Augmentation = Literal["shuffle", "token_cutoff", "feature_cutoff", "dropout", "adversarial"]


EncoderNeed = Literal["any", "transformer", "condensed"]
"""Which encoders a method can train; `condensed` is a transformer with a Condenser head."""


class MethodConfig(Config):
    """Settings of one method.

    Attributes:
        data: Data that the method learns from.
        summary: What it takes for positives, in a few words.
        encoder: Which encoders it can train.
        pairs_sentences: Whether a pair is two sentences of one document, so that documents of one
            sentence give none.
    """

    data: ClassVar[str] = "sentences"
    summary: ClassVar[str]
    encoder: ClassVar[EncoderNeed] = "transformer"
    pairs_sentences: ClassVar[bool] = False


class SimCSE(MethodConfig):
    """A sentence under two dropout masks (Gao et al. 2021)."""

    name: Literal["simcse"] = "simcse"
    summary: ClassVar[str] = "a sentence under two dropout masks"
    temperature: Temperature = 0.05
    """Divides the similarity; paper and code."""
    mlm: Weight = 0.0
    """Weight of a masked-language term. 0 in the paper's main tables, .1 in the code; the ablation
    has .01, .1 and 1."""
    mask_rate: Rate = 0.15
    """Share of masked tokens; BERT and code."""


class ConSERT(MethodConfig):
    """Two perturbations of one sentence (Yan et al. 2021)."""

    name: Literal["consert"] = "consert"
    summary: ClassVar[str] = "a sentence under two perturbations"
    first: tuple[Augmentation, ...] = ("feature_cutoff",)
    """First view; section 5.2 and unsup-consert-base.sh."""
    second: tuple[Augmentation, ...] = ("shuffle",)
    """Second view; section 5.2 and unsup-consert-base.sh."""
    rate: Rate = 0.2
    """Share cut off or dropped; section 4.1 has .2 for features and dropout, .15 for tokens."""
    epsilon: float = Field(default=1.0, gt=0)
    """Norm of an adversarial change. Ours."""
    dropout: bool = False
    """Dropout of the encoder; off in section 4.1 and unsup-consert-base.sh."""
    temperature: Temperature = 0.1
    """Divides the similarity; .1 in section 4.1."""
    weight: Weight = 0.15
    """Weight of the loss; cl_rate in the code."""


class MirrorBERT(MethodConfig):
    """A sentence and itself with one masked span (Liu et al. 2021)."""

    name: Literal["mirror_bert"] = "mirror_bert"
    summary: ClassVar[str] = "a sentence and itself with a masked span"
    span: int = Field(default=5, ge=0)
    """Masked characters; 5 in the paper, 0 masks none."""
    drophead: Rate = 0.0
    """Share of heads dropped in place of dropout; .2 in the paper."""
    pooling: Literal["encoder", "mean_with_pads"] = "encoder"
    """Pooling in training. mean_with_pads is the mean over all max_length positions with padding,
    as in the BERT scripts of the code."""
    temperature: Temperature = 0.04
    """Divides the similarity; .04 in the code for sentences, .2 for words."""


class ICT(MethodConfig):
    """Inverse cloze: a sentence and the rest of its document (Lee et al. 2019)."""

    name: Literal["ict"] = "ict"
    data: ClassVar[str] = "documents"
    summary: ClassVar[str] = "a sentence and the rest of its document"
    encoder: ClassVar[EncoderNeed] = "any"
    pairs_sentences: ClassVar[bool] = True
    removal: float = Field(default=0.9, ge=0, le=1)
    """Share of contexts without their sentence; .9 in ORQA."""
    context_tokens: int = Field(default=288, ge=SHORTEST_CONTEXT)
    """Tokens of a context; the block of ORQA's code."""
    context_as: Literal["text", "mean_of_sentences"] = "text"
    """How a context becomes a vector: as one text (ORQA), or as the mean of its sentence vectors,
    as in validation."""
    projection: int | None = Field(default=None, ge=1)
    """Width of a training-only dense layer with layer norm on both sides; 128 in ORQA. None: no
    projection, as in mutual."""
    temperature: Temperature = 0.05
    """Divides the similarity. Ours, as SimCSE; the paper has none (1)."""


class CPC(MethodConfig):
    """A sentence and what precedes it (van den Oord et al. 2018)."""

    name: Literal["cpc"] = "cpc"
    data: ClassVar[str] = "documents"
    summary: ClassVar[str] = "a sentence and what precedes it"
    encoder: ClassVar[EncoderNeed] = "any"
    pairs_sentences: ClassVar[bool] = True
    context_tokens: int = Field(default=288, ge=SHORTEST_CONTEXT)
    """Tokens of a context. Ours, as for ict."""
    bilinear: bool = False
    """Map anchors by W, as the paper; mutual has none."""
    temperature: Temperature = 0.05
    """Divides the similarity. Ours, as SimCSE; the paper has none (1)."""


class CONPONO(MethodConfig):
    """A sentence and its neighbours (Iter et al. 2020)."""

    name: Literal["conpono"] = "conpono"
    data: ClassVar[str] = "documents"
    summary: ClassVar[str] = "neighbouring sentences of a document"
    encoder: ClassVar[EncoderNeed] = "any"
    pairs_sentences: ClassVar[bool] = True
    window: int = Field(default=1, ge=1)
    """Largest distance; 1 in mutual, 4 in the paper."""
    bilinear: bool = False
    """Map anchors by one W; W_k in the code's isolated model, none in mutual."""
    temperature: Temperature = 0.05
    """Divides the similarity. Ours, as SimCSE; the paper has none (1)."""


class DeCLUTR(MethodConfig):
    """Spans of one long document (Giorgi et al. 2021, declutr)."""

    name: Literal["declutr"] = "declutr"
    data: ClassVar[str] = "long documents"
    summary: ClassVar[str] = "spans of one document"
    anchors: int = Field(default=2, ge=1)
    """A, anchor spans per document; 2 in declutr (Figure 2a: also 1)."""
    positives: int = Field(default=2, ge=1)
    """P, positive spans per anchor, averaged; 2 in declutr (Figure 2b: also 1, 4)."""
    shortest: int = Field(default=32, ge=1)
    """l_min, tokens (declutr)."""
    longest: int = Field(default=512, ge=2)
    """l_max, tokens (declutr)."""
    strategy: Literal["adjacent", "subsuming", "any"] = "any"
    """Position of positives relative to their anchor; any is best (Figure 2c)."""
    temperature: Temperature = 0.05
    """Divides the similarity; one of two values in declutr's grid (erratum E33)."""
    mlm: Weight = 1.0
    """Weight of masked language on the anchors (erratum E32); code."""
    mask_rate: Rate = 0.15
    """Share of masked tokens; BERT and declutr."""


class InfoCSEIDCPairs(MethodConfig):
    """Sentences of one document that the last encoder put into one cluster (mutual)."""

    name: Literal["infocse_idc"] = "infocse_idc"
    data: ClassVar[str] = "documents"
    summary: ClassVar[str] = "sentences of one document in one cluster"
    encoder: ClassVar[EncoderNeed] = "any"
    pairs_sentences: ClassVar[bool] = True
    batches: Literal["pair", "cluster"] = "pair"
    """pair: mutual, Eq. 4. cluster (ours): whole documents, each sentence encoded once, all pairs
    of a cluster are positives."""
    max_per_cluster: int = Field(default=6, ge=2)
    """Sentences of a cluster in one step of cluster batches. Ours."""
    temperature: Temperature = 0.05
    """Divides the similarity. Ours, as in SimCSE; mutual's Eq. 1 has none, which is 1."""


class FineTune(MethodConfig):
    """A document and the text that people matched with it (mutual, section 3.3)."""

    name: Literal["fine_tune"] = "fine_tune"
    data: ClassVar[str] = "documents and labelled pairs"
    summary: ClassVar[str] = "a document and what people matched with it"
    encoder: ClassVar[EncoderNeed] = "any"
    sentences: int = Field(default=8, ge=1)
    """Random sentences of a document in a step; their mean is its vector. Whole documents cost
    several times as much. Ours; mutual states none."""
    temperature: Temperature = 0.05
    """Divides the similarity. Ours, as in self-training (mutual, section 3.3)."""


class Condenser(MethodConfig):
    """Pre-training that fills masks from the sentence vector (Gao and Callan 2021)."""

    name: Literal["condenser"] = "condenser"
    summary: ClassVar[str] = "none: pre-training that fills masks"
    mask_rate: float = Field(default=0.15, gt=0, lt=1)
    """Share of masked tokens; BERT, and infocse, section 4.2."""
    skip_from: int | None = Field(default=None, ge=1)
    """Layer whose tokens the head takes. None: the middle, 6 of 12 in infocse."""
    head_layers: int = Field(default=2, ge=1)
    """Layers of the head; infocse and its code."""


class CondenserHead(MethodConfig):
    """The shape of the Condenser head that a method continues."""

    skip_from: int | None = Field(default=None, ge=1)
    """As in the Condenser stage (infocse)."""
    head_layers: int = Field(default=2, ge=1)
    """As in the Condenser stage (infocse)."""


class InfoCSEAux(CondenserHead):
    """SimCSE with an auxiliary network that fills masks from the sentence vector (infocse)."""

    name: Literal["infocse_aux"] = "infocse_aux"
    summary: ClassVar[str] = "SimCSE's, and masks to fill"
    encoder: ClassVar[EncoderNeed] = "condensed"
    temperature: Temperature = 0.05
    """Divides the similarity; infocse, as SimCSE."""
    weight: Weight = 1e-5
    """lambda; infocse, Table 8, and code (erratum E16)."""
    mask_rate: float = Field(default=0.4, gt=0, lt=1)
    """Share of masked tokens; infocse, Table 7."""
    detach: bool = True
    """Freeze the lower layers (infocse, Table 6)."""
    head: Literal["batch_norm", "tanh"] = "batch_norm"
    """Head of the contrastive loss: batch_norm (code), tanh (text)."""
    random_head: bool = False
    """Start without a pre-trained head (infocse, Table 4)."""


class DiffCSE(MethodConfig):
    """SimCSE with a discriminator of edits on the sentence vector (Chuang et al. 2022)."""

    name: Literal["diffcse"] = "diffcse"
    summary: ClassVar[str] = "SimCSE's, and edits to detect"
    encoder: ClassVar[EncoderNeed] = "condensed"
    temperature: Temperature = 0.05
    """Divides the similarity; code, as SimCSE."""
    weight: Weight = 0.005
    """lambda, weight of the discriminator; code."""
    mask_rate: float = Field(default=0.3, gt=0, lt=1)
    """Share of masked tokens; paper and code."""
    sample: Literal["argmax", "multinomial"] = "argmax"
    """How the generator fills masks; code. The paper draws."""
    random_head: bool = False
    """Start with an untrained generator. Ours; the code downloads a trained one."""


class RTDMLM(CondenserHead):
    """InfoCSE-aux's and DiffCSE's auxiliary losses on one sentence vector (infocse, Table 12)."""

    name: Literal["rtd_mlm"] = "rtd_mlm"
    summary: ClassVar[str] = "SimCSE's, masks to fill, and edits to detect"
    encoder: ClassVar[EncoderNeed] = "condensed"
    temperature: Temperature = 0.05
    """Divides the similarity; as in both papers, Table 12 states none."""
    rtd: Weight = 0.005
    """lambda_r; DiffCSE's code, Table 12 states none."""
    mlm: Weight = 1e-5
    """lambda_m; InfoCSE-aux's code, Table 12 states none."""
    mask_rate: float = Field(default=0.4, gt=0, lt=1)
    """Share of masked tokens; InfoCSE-aux's code. Both losses share masks (ours)."""
    sample: Literal["argmax", "multinomial"] = "argmax"
    """As for DiffCSE; its code."""
    detach: bool = True
    """As for InfoCSE-aux (infocse, Table 6)."""
    random_head: bool = False
    """As for both (infocse, Table 4)."""


class ESimCSE(MethodConfig):
    """SimCSE with repeated sub-words and a queue of negatives (Wu et al. 2022)."""

    name: Literal["esimcse"] = "esimcse"
    summary: ClassVar[str] = "repeated sub-words; a queue of negatives"
    temperature: Temperature = 0.05
    """Divides the similarity; code, as SimCSE."""
    repetition: float = Field(default=0.32, ge=0, lt=1)
    """rho, share of repeated tokens; code for BERT-base."""
    rule: Literal["code", "paper"] = "code"
    """Maximum repetitions: code min(10, int(rho L)) - 1 for L tokens, paper max(2, int(rho N)) for
    N content tokens."""
    queue: int = Field(default=160, ge=0)
    """Momentum vectors of past steps; 2.5 batches of 64 (paper, code)."""
    momentum: float = Field(default=0.995, ge=0, lt=1)
    """gamma; paper and code."""
    momentum_init: Literal["copy", "random"] = "copy"
    """Start of the momentum encoder. Ours; the code's log has random, a bug."""


class SNCSE(MethodConfig):
    """A prompted sentence, itself, and its negation as a soft negative (Wang et al. 2022)."""

    name: Literal["sncse"] = "sncse"
    summary: ClassVar[str] = "a prompted sentence; its negation is a soft negative"
    temperature: Temperature = 0.05
    """Divides the similarity; code."""
    weight: Weight = 1e-3
    """lambda, weight of the margin loss; code for BERT."""
    alpha: float = Field(default=0.1, ge=0)
    """Smallest margin to the negation; code."""
    beta: float = Field(default=0.3, ge=0)
    """Largest margin to the negation; code."""
    before: str = 'This sentence : "'
    """Prompt before the anchor; code."""
    before_positive: str = 'This sentence of "'
    """Prompt before positive and negation; code."""
    behind: str = '" means'
    """Prompt between text and mask; code."""
    end: str = "."
    """Prompt after the mask; code."""

    @model_validator(mode="after")
    def _margins_in_order(self) -> "SNCSE":
        if self.alpha > self.beta:
            raise ValueError(
                f"alpha is at most beta: found alpha {self.alpha} and beta {self.beta}; raise "
                "beta, or lower alpha"
            )
        return self


class HiCL(MethodConfig):
    """Segments beside whole texts, over another method (hicl)."""

    name: Literal["hicl"] = "hicl"
    data: ClassVar[str] = "documents"
    summary: ClassVar[str] = "whole texts, and their segments"
    base: Annotated[SimCSE | ESimCSE | SNCSE, Field(discriminator="name")] = SimCSE()
    """Method on whole texts (hicl)."""
    segment: int = Field(default=32, ge=4)
    """L, tokens of a segment (hicl), special tokens included (open in hicl)."""
    longest: int = Field(default=512, ge=8)
    """Tokens of a text; hicl."""
    alpha: Weight = 0.05
    """Weight of the segments' loss; one of three values in hicl."""
    beta: Weight = 0.0
    """Weight of segments against texts (HiCLv2); 1e-5 to 3e-4 in hicl."""
    siblings: Literal["ignored", "negative", "positive"] = "ignored"
    """Role of other segments of the same text; ignored in hicl."""
    negatives: Literal["second", "first"] = "second"
    """View of the negative segments. Ours; open in hicl (erratum E34)."""
    pooling: Literal["weighted", "weighted_with_frame", "plain"] = "weighted"
    """How segments are summed: weighted by length as in hicl, of content (ours) or with special
    tokens and prompt (weighted_with_frame, erratum E34)."""
    head: Literal["after", "before"] = "after"
    """Whether the head follows the sum of segments (ours) or precedes it; open in hicl (erratum
    E34)."""
    denominator: Literal["sum", "average"] = "sum"
    """sum: each segment of another text is a negative (hicl); average: their mean."""

    @model_validator(mode="after")
    def _shares_of_one(self) -> "HiCL":
        if self.alpha + self.beta > 1:
            raise ValueError(
                f"alpha + beta is at most 1: found {self.alpha} + {self.beta}; lower one of them"
            )
        return self


class Autoencoder(MethodConfig):
    """What both autoencoders share: a decoder, alone or beside SimCSE (product_thesis)."""

    simcse: Weight = 0.0
    """Weight of SimCSE; 1 in product_thesis's multi-task form."""
    weight: Weight = 1.0
    """Weight of the decoder; .1 to .0001 in the multi-task form."""
    temperature: Temperature = 0.05
    """Divides the similarity of SimCSE; product_thesis (erratum E23)."""


class CLMAutoencoder(Autoencoder):
    """A decoder restores the sentence from its vector (product_thesis; TSDAE, Wang et al. 2021)."""

    name: Literal["clm_autoencoder"] = "clm_autoencoder"
    summary: ClassVar[str] = "none: a decoder restores the sentence"
    noise: Rate = 0.0
    """Share of deleted words; none in product_thesis, .6 in TSDAE (erratum E38)."""
    layers: int = Field(default=2, ge=1)
    """Layers of the decoder (product_thesis); a tied one has none."""
    tied: bool = False
    """Use the encoder's layers, as in TSDAE's code; product_thesis has its own."""
    per: Literal["row", "target"] = "row"
    """Mean over sentences of token sums (product_thesis), or tokens."""


class MLMAutoencoder(Autoencoder):
    """A decoder fills the masks of the sentence from its vector (product_thesis)."""

    name: Literal["mlm_autoencoder"] = "mlm_autoencoder"
    summary: ClassVar[str] = "none: a decoder fills masks"
    mask_rate: float = Field(default=0.15, gt=0, lt=1)
    """Share of masked tokens. Ours, as BERT."""
    layers: int = Field(default=2, ge=1)
    """Layers of the decoder (product_thesis)."""


class BCE(MethodConfig):
    """SimCSE's pairs with a binary loss (product_thesis)."""

    name: Literal["bce"] = "bce"
    summary: ClassVar[str] = "SimCSE's pairs with a binary loss"
    temperature: Temperature = 0.05
    """Divides the similarity; product_thesis (erratum E23), in place of its power (erratum E24)."""


class CT(MethodConfig):
    """Contrastive Tension: two encoders agree on equal sentences (Carlsson et al. 2021)."""

    name: Literal["ct"] = "ct"
    summary: ClassVar[str] = "a sentence in two encoders"
    negatives: int = Field(default=7, ge=1)
    """Negatives per anchor; paper."""


class ISBERT(MethodConfig):
    """Mutual information of a sentence and its tokens (Zhang et al. 2020)."""

    name: Literal["is_bert"] = "is_bert"
    summary: ClassVar[str] = "a sentence and its own tokens"


class SGOPT(MethodConfig):
    """Self-guided: the vector agrees with all layers of a frozen copy (Kim et al. 2021)."""

    name: Literal["sg_opt"] = "sg_opt"
    summary: ClassVar[str] = "a sentence and the layers of a frozen copy"
    temperature: Temperature = 0.01
    """Divides the cosine; paper and code."""
    l2: Weight = 0.1
    """lambda, weight of the distance to the initial weights; paper and code."""
    width: int = Field(default=4096, ge=8)
    """Width of the projection; paper and code."""


AnyMethod = (
    SimCSE
    | ConSERT
    | MirrorBERT
    | ICT
    | CPC
    | CONPONO
    | DeCLUTR
    | InfoCSEIDCPairs
    | FineTune
    | Condenser
    | InfoCSEAux
    | DiffCSE
    | RTDMLM
    | ESimCSE
    | SNCSE
    | HiCL
    | CLMAutoencoder
    | MLMAutoencoder
    | BCE
    | CT
    | ISBERT
    | SGOPT
)

METHODS: Mapping[str, type[AnyMethod]] = {
    settings.model_fields["name"].default: settings for settings in get_args(AnyMethod)
}
METHOD_NAMES = tuple(METHODS)


def _named(value: object) -> object:
    """Return a bare name as a method with its defaults."""
    return {"name": value} if isinstance(value, str) else value


MethodSettings = Annotated[AnyMethod, Field(discriminator="name"), BeforeValidator(_named)]
"""Settings of one method; `simcse` is short for `{name = "simcse"}`."""


def temperature_of(method: MethodSettings) -> float | None:
    """Return the temperature of the encoder's similarity in the loss; None if there is none.

    SG-OPT always divides the cosine, so it has none.
    """
    match method:
        case HiCL():
            return method.base.temperature
        case SGOPT() | CLMAutoencoder(simcse=0.0) | MLMAutoencoder(simcse=0.0):
            return None
        case _:
            return getattr(method, "temperature", None)
