"""What each method lets you set. A default is the paper's, or the code's where they differ.

Where the two disagree the paper index (methods/README.md) says which side a default takes, and
`method_presets` holds the other one. An erratum, by its number, is a row of docs/errata.md.
"""

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from sentemb_core.types import Config

Rate = Annotated[float, Field(ge=0, lt=1)]
Temperature = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
SHORTEST_CONTEXT = 16
"""Tokens: a sentence of average length. What holds less is another sentence's piece."""

Augmentation = Literal["shuffle", "token_cutoff", "feature_cutoff", "dropout", "adversarial"]


class SimCSE(Config):
    """A sentence and itself under another dropout (Gao et al. 2021)."""

    name: Literal["simcse"] = "simcse"
    temperature: Temperature = Field(
        default=0.05, description="Divides the similarity: the paper's and the code's."
    )
    mlm: Weight = Field(
        default=0.0,
        description="Of a masked-language term: none in the paper's main tables; its code has .1, "
        "an ablation .01, .1 and 1.",
    )
    mask_rate: Rate = Field(default=0.15, description="BERT's, in the code too.")


class ConSERT(Config):
    """Two perturbations of one sentence (Yan et al. 2021)."""

    name: Literal["consert"] = "consert"
    first: tuple[Augmentation, ...] = Field(
        default=("feature_cutoff",), description="unsup-consert-base.sh."
    )
    second: tuple[Augmentation, ...] = Field(
        default=("shuffle",), description="unsup-consert-base.sh."
    )
    rate: Rate = Field(
        default=0.2, description="Of what is cut off or dropped: unsup-consert-base.sh."
    )
    epsilon: float = Field(default=1.0, gt=0, description="Length of an adversarial change. Ours.")
    dropout: bool = Field(
        default=False,
        description="The encoder's own. 0 in unsup-consert-base.sh, on in every other script.",
    )
    temperature: Temperature = Field(
        default=0.1, description="Divides the similarity: .1 in the code's scripts."
    )
    weight: Weight = Field(default=0.15, description="The code's cl_rate.")


class MirrorBERT(Config):
    """A sentence and itself with one masked span (Liu et al. 2021)."""

    name: Literal["mirror_bert"] = "mirror_bert"
    span: int = Field(default=5, ge=0, description="Characters masked: 5 in the paper; 0: none.")
    drophead: Rate = Field(
        default=0.0,
        description="Heads dropped in place of dropout: .2 in the paper, or none.",
    )
    pooling: Literal["encoder", "mean_with_pads"] = Field(
        default="encoder",
        description="In training. mean_with_pads: the mean over all max_length places, padding "
        "too, of the code's BERT scripts.",
    )
    temperature: Temperature = Field(
        default=0.04,
        description="Divides the similarity: the code's .04 for sentences; .2 for words.",
    )


class ICT(Config):
    """Inverse cloze: a sentence and the rest of its document (Lee et al. 2019)."""

    name: Literal["ict"] = "ict"
    removal: float = Field(
        default=0.9,
        ge=0,
        le=1,
        description="How often the sentence leaves its context: .9 in ORQA's paper.",
    )
    context_tokens: int = Field(
        default=288, ge=SHORTEST_CONTEXT, description="The block of ORQA's code."
    )
    context_as: Literal["text", "mean_of_sentences"] = Field(
        default="text",
        description="How a context becomes a vector: as one text in ORQA; as the mean of its "
        "sentences' vectors, as which a document is judged.",
    )
    projection: int | None = Field(
        default=None,
        ge=1,
        description="Width of a dense layer with layer norm on both sides, in training alone; "
        "ORQA: 128. None: the encoder's own vectors, as mutual compares them.",
    )
    temperature: Temperature = Field(
        default=0.05, description="Ours, as in SimCSE; the paper has inner products alone (1)."
    )


class CPC(Config):
    """A sentence and what precedes it (van den Oord et al. 2018)."""

    name: Literal["cpc"] = "cpc"
    context_tokens: int = Field(
        default=288,
        ge=SHORTEST_CONTEXT,
        description="Ours, as for inverse cloze.",
    )
    bilinear: bool = Field(default=False, description="The original paper's W; mutual gives none.")
    temperature: Temperature = Field(
        default=0.05, description="Ours, as in SimCSE; the paper has inner products alone (1)."
    )


class CONPONO(Config):
    """A sentence and its neighbours (Iter et al. 2020)."""

    name: Literal["conpono"] = "conpono"
    window: int = Field(default=1, ge=1, description="1 as in mutual's case study; paper: 4.")
    bilinear: bool = Field(
        default=False,
        description="W_k of the code's isolated model, here one for all k; none in mutual.",
    )
    temperature: Temperature = Field(
        default=0.05, description="Ours, as in SimCSE; the paper has inner products alone (1)."
    )


class DeCLUTR(Config):
    """Spans of one long document (Giorgi et al. 2021, declutr)."""

    name: Literal["declutr"] = "declutr"
    anchors: int = Field(
        default=2,
        ge=1,
        description="A, spans a document: 2 in declutr, whose Figure 2a has 1 too.",
    )
    positives: int = Field(
        default=2,
        ge=1,
        description="P, spans near each anchor, averaged: 2 in declutr, whose Figure 2b has 1 "
        "and 4 too.",
    )
    shortest: int = Field(default=32, ge=1, description="l_min, tokens (declutr).")
    longest: int = Field(default=512, ge=2, description="l_max, tokens (declutr).")
    strategy: Literal["adjacent", "subsuming", "any"] = Field(
        default="any",
        description="How positives lie to their anchor; any of both ways is best in declutr "
        "(Figure 2c).",
    )
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity: declutr, one of the two of its grid (erratum E33).",
    )
    mlm: Weight = Field(
        default=1.0,
        description="On the anchors, in the same forward (erratum E32): the code's weight.",
    )
    mask_rate: Rate = Field(default=0.15, description="BERT's, in declutr too.")


class InfoCSEIDCPairs(Config):
    """Sentences of one document that the last encoder put into one cluster (mutual)."""

    name: Literal["infocse_idc"] = "infocse_idc"
    batches: Literal["pair", "cluster"] = Field(
        default="pair",
        description="pair: mutual, Eq. 4. cluster, which is ours: whole documents, each "
        "sentence encoded once, every pair inside a cluster positive.",
    )
    max_per_cluster: int = Field(
        default=6,
        ge=2,
        description="Cluster batches: sentences drawn from one cluster a step. Ours.",
    )
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity. Ours, .05 as in SimCSE; 1 for mutual's literal Eq. 1.",
    )


class FineTune(Config):
    """A document and the text that people matched with it (mutual, section 3.3)."""

    name: Literal["fine_tune"] = "fine_tune"
    sentences: int = Field(
        default=8,
        ge=1,
        description="Drawn from a document at each step, which their mean stands for: whole "
        "documents cost several times as much. Ours; mutual states none.",
    )
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity. Ours, .05 as in self-training, whose loss it is (seed "
        "000, section 3.3).",
    )


class Condenser(Config):
    """Pre-training whose masked tokens lean on the sentence vector (Gao and Callan 2021)."""

    name: Literal["condenser"] = "condenser"
    mask_rate: float = Field(
        default=0.15, gt=0, lt=1, description="BERT's, in infocse too (section 4.2)."
    )
    skip_from: int | None = Field(
        default=None,
        ge=1,
        description="Layer whose tokens the head sees; none: the middle one, the 6 of 12 of seed "
        "001.",
    )
    head_layers: int = Field(default=2, ge=1, description="infocse's and its code's.")


class InfoCSEAux(Config):
    """SimCSE with an auxiliary network that must fill masks from the sentence vector (infocse)."""

    name: Literal["infocse_aux"] = "infocse_aux"
    temperature: Temperature = Field(
        default=0.05, description="Divides the similarity: infocse, as SimCSE."
    )
    weight: Weight = Field(
        default=1e-5, description="lambda: infocse, Table 8, and code (erratum E16)."
    )
    mask_rate: float = Field(default=0.4, gt=0, lt=1, description="infocse, Table 7.")
    detach: bool = Field(default=True, description="infocse, Table 6.")
    head: Literal["batch_norm", "tanh"] = Field(
        default="batch_norm", description="The code's; tanh: SimCSE's, as the text has it."
    )
    random_head: bool = Field(
        default=False, description="Start without a pre-trained head (infocse, Table 4)."
    )
    skip_from: int | None = Field(
        default=None, ge=1, description="As the Condenser stage (infocse)."
    )
    head_layers: int = Field(default=2, ge=1, description="As the Condenser stage (infocse).")


class DiffCSE(Config):
    """SimCSE with a discriminator of edits that sees the sentence vector (Chuang et al. 2022)."""

    name: Literal["diffcse"] = "diffcse"
    temperature: Temperature = Field(
        default=0.05, description="Divides the similarity: the code's, as SimCSE."
    )
    weight: Weight = Field(default=0.005, description="lambda, of the discriminator: the code's.")
    mask_rate: float = Field(default=0.3, gt=0, lt=1, description="Paper and code.")
    sample: Literal["argmax", "multinomial"] = Field(
        default="argmax", description="The code's; the paper draws from the generator."
    )
    random_head: bool = Field(
        default=False,
        description="Start with a generator that was never trained. Ours: the code downloads a "
        "trained one.",
    )


class RTDMLM(Config):
    """InfoCSE-aux's and DiffCSE's auxiliary losses on one sentence vector (infocse, Table 12)."""

    name: Literal["rtd_mlm"] = "rtd_mlm"
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity: as in either paper; Table 12 names none.",
    )
    rtd: Weight = Field(
        default=0.005, description="lambda_r: that of DiffCSE's code; Table 12 names none."
    )
    mlm: Weight = Field(
        default=1e-5, description="lambda_m: that of InfoCSE-aux's code; Table 12 names none."
    )
    mask_rate: float = Field(
        default=0.4,
        gt=0,
        lt=1,
        description="That of InfoCSE-aux's code; both losses read the same masks (ours).",
    )
    sample: Literal["argmax", "multinomial"] = Field(
        default="argmax", description="As for DiffCSE: its code's."
    )
    detach: bool = Field(default=True, description="As for InfoCSE-aux (infocse, Table 6).")
    random_head: bool = Field(default=False, description="As for both (infocse, Table 4).")
    skip_from: int | None = Field(
        default=None, ge=1, description="As the Condenser stage (infocse)."
    )
    head_layers: int = Field(default=2, ge=1, description="As the Condenser stage (infocse).")


class ESimCSE(Config):
    """SimCSE with repeated sub-words and a queue of negatives (Wu et al. 2022)."""

    name: Literal["esimcse"] = "esimcse"
    temperature: Temperature = Field(
        default=0.05, description="Divides the similarity: the code's, as SimCSE."
    )
    repetition: float = Field(
        default=0.32,
        ge=0,
        lt=1,
        description="rho, share of repeated tokens: the code's for BERT-base.",
    )
    rule: Literal["code", "paper"] = Field(
        default="code",
        description="Of how many repeat: code up to min(10, int(rho L)) - 1 of L "
        "tokens, paper up to max(2, int(rho N)) of N content tokens.",
    )
    queue: int = Field(
        default=160, ge=0, description="Past momentum vectors: 2.5 batches of 64, paper and code."
    )
    momentum: float = Field(default=0.995, ge=0, lt=1, description="gamma; paper and code.")
    momentum_init: Literal["copy", "random"] = Field(
        default="copy", description="Ours; random: what the code's log shows, a bug."
    )


class SNCSE(Config):
    """A prompted sentence, itself, and its negation as a soft negative (Wang et al. 2022)."""

    name: Literal["sncse"] = "sncse"
    temperature: Temperature = Field(
        default=0.05, description="Divides the similarity: the code's."
    )
    weight: Weight = Field(
        default=1e-3, description="lambda, of the margin loss: the code's for BERT."
    )
    alpha: float = Field(default=0.1, ge=0, description="Least margin to the negation: the code's.")
    beta: float = Field(
        default=0.3, ge=0, description="Largest margin to the negation: the code's."
    )
    before: str = Field(default='This sentence : "', description="The code's first prompt.")
    before_positive: str = Field(
        default='This sentence of "', description="The code's second prompt."
    )
    behind: str = Field(default='" means', description="Then the mask: the code's.")
    end: str = Field(default=".", description="Behind the mask: the code's.")

    @model_validator(mode="after")
    def _margins_in_order(self) -> "SNCSE":
        if self.alpha > self.beta:
            raise ValueError(
                f"a negation lies alpha at least and beta at most below the positive: {self.alpha} "
                f"is above {self.beta}; raise beta, or lower alpha"
            )
        return self


class HiCL(Config):
    """Segments beside whole texts, over another method (hicl)."""

    name: Literal["hicl"] = "hicl"
    base: Annotated[
        SimCSE | ESimCSE | SNCSE,
        Field(discriminator="name", description="What compares whole texts (hicl)."),
    ] = SimCSE()
    segment: int = Field(
        default=32,
        ge=4,
        description="Tokens of a segment: L of hicl. Special ones count too, where it does "
        "not say.",
    )
    longest: int = Field(default=512, ge=8, description="Tokens of a text: hicl.")
    alpha: Weight = Field(
        default=0.05, description="Of the segments' loss: one of the three of hicl."
    )
    beta: Weight = Field(
        default=0.0,
        description="HiCLv2: of segments against texts, in hicl 1e-5 to 3e-4.",
    )
    siblings: Literal["ignored", "negative", "positive"] = Field(
        default="ignored",
        description="What segments of one text are to each other; ignored in hicl.",
    )
    negatives: Literal["second", "first"] = Field(
        default="second",
        description="Of which view the segments are that a segment is held against: ours, for seed "
        "004 does not say (erratum E34).",
    )
    pooling: Literal["weighted", "weighted_with_frame", "plain"] = Field(
        default="weighted",
        description="How segments add up to their text; weighted, as in hicl: by length. Of "
        "content, which is ours; weighted_with_frame: special tokens and a prompt count too "
        "(erratum E34).",
    )
    head: Literal["after", "before"] = Field(
        default="after",
        description="Whether segments go through the head after they are added up, which is ours, "
        "or before: hicl does not say (erratum E34).",
    )
    denominator: Literal["sum", "average"] = Field(
        default="sum",
        description="sum, as in hicl: each segment of another text is a negative of its own.",
    )

    @model_validator(mode="after")
    def _shares_of_one(self) -> "HiCL":
        if self.alpha + self.beta > 1:
            raise ValueError(
                f"alpha and beta are shares, the rest is the base method's: {self.alpha} + "
                f"{self.beta} is above 1; lower one of them"
            )
        return self


class CLMAutoencoder(Config):
    """A decoder restores the sentence from its vector (product_thesis; TSDAE, Wang et al. 2021)."""

    name: Literal["clm_autoencoder"] = "clm_autoencoder"
    noise: Rate = Field(
        default=0.0,
        description="Words deleted first; product_thesis states none, TSDAE's paper .6 (erratum "
        "E38).",
    )
    layers: int = Field(
        default=2, ge=1, description="Of the decoder's own (product_thesis); a tied one has none."
    )
    tied: bool = Field(
        default=False,
        description="Use the encoder's layers, as in TSDAE's code; product_thesis has its own.",
    )
    per: Literal["row", "target"] = Field(
        default="row", description="Mean over sentences of sums (product_thesis), or over tokens."
    )
    simcse: Weight = Field(
        default=0.0, description="Of SimCSE beside it; product_thesis's multi-task: 1."
    )
    weight: Weight = Field(
        default=1.0, description="Of the decoder; product_thesis's multi-task: .1 to .0001."
    )
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity, in SimCSE beside it: product_thesis (erratum E23).",
    )


class MLMAutoencoder(Config):
    """A decoder fills the masks of the sentence from its vector (product_thesis)."""

    name: Literal["mlm_autoencoder"] = "mlm_autoencoder"
    mask_rate: float = Field(
        default=0.15, gt=0, lt=1, description="Ours, BERT's: not stated by product_thesis."
    )
    layers: int = Field(default=2, ge=1, description="Of the decoder (product_thesis).")
    simcse: Weight = Field(
        default=0.0, description="Of SimCSE beside it; product_thesis's multi-task: 1."
    )
    weight: Weight = Field(
        default=1.0, description="Of the decoder; product_thesis's multi-task: .1 to .0001."
    )
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity, in SimCSE beside it: product_thesis (erratum E23).",
    )


class BCE(Config):
    """SimCSE's pairs under a binary loss (product_thesis)."""

    name: Literal["bce"] = "bce"
    temperature: Temperature = Field(
        default=0.05,
        description="Divides the similarity: product_thesis (erratum E23), whose power is read so "
        "(erratum E24).",
    )


class CT(Config):
    """Contrastive Tension: two encoders agree on one sentence alone (Carlsson et al. 2021)."""

    name: Literal["ct"] = "ct"
    negatives: int = Field(default=7, ge=1, description="Other sentences per anchor: the paper's.")


class ISBERT(Config):
    """Mutual information of a sentence and its tokens (Zhang et al. 2020)."""

    name: Literal["is_bert"] = "is_bert"


class SGOPT(Config):
    """Self-guided: the vector agrees with all layers of a frozen copy (Kim et al. 2021)."""

    name: Literal["sg_opt"] = "sg_opt"
    temperature: Temperature = Field(
        default=0.01, description="Divides the cosine: paper and code."
    )
    l2: Weight = Field(
        default=0.1,
        description="lambda, of the distance to the weights at the start: paper and code.",
    )
    width: int = Field(default=4096, ge=8, description="Of the projection: paper and code.")


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

METHOD_NAMES: tuple[str, ...] = tuple(
    one.model_fields["name"].default for one in get_args(AnyMethod)
)


def _named(value: object) -> object:
    """A bare name stands for a method with its defaults."""
    return {"name": value} if isinstance(value, str) else value


MethodSettings = Annotated[AnyMethod, Field(discriminator="name"), BeforeValidator(_named)]
"""Settings of one method; `simcse` is short for `{name = "simcse"}`."""


def temperature_of(method: MethodSettings) -> float | None:
    """What divides the encoder's similarity in the loss; none where nothing does.

    SG-OPT divides the cosine, whatever the encoder's similarity is.
    """
    match method:
        case HiCL():
            return method.base.temperature
        case SGOPT() | CLMAutoencoder(simcse=0.0) | MLMAutoencoder(simcse=0.0):
            return None
        case _:
            return getattr(method, "temperature", None)
