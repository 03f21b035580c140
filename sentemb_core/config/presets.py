"""Presets of methods: the settings of their papers, and of their codes where they differ.

A preset reaches a training as plain settings, so an edit here changes no cache key.
"""

from collections.abc import Mapping

from sentemb_core.types import Json

_SIMCSE: Json = {"batch_size": 64, "warmup": 0.0, "weight_decay": 0.0, "evaluate_every": 125}
_FLOAT32: Json = {**_SIMCSE, "batch_size": 256, "dtype": "float32"}
_SLICED: Json = {**_FLOAT32, "chunk": 128}  # up to 17 segments per text: 8,704 rows in both views
_CONSERT: Json = {"batch_size": 96, "warmup": 0.1, "evaluate_every": 200, "patience": 10}
_MIRROR: Json = {"batch_size": 200, "learning_rate": 2e-5, "schedule": "constant", "warmup": 0.0}
_CONDENSED: Json = {**_SIMCSE, "learning_rate": 7e-6}
_MUTUAL: Json = {
    "learning_rate": 2e-5,
    "optimizer": "adam",
    "schedule": "constant",
    "warmup": 0.0,
}
_THESIS: Json = {"batch_size": 64, "learning_rate": 3e-5}  # product_thesis
_TASKS: Json = {**_THESIS, "method": {"simcse": 1.0, "weight": 0.01}}
_SNCSE_OF_HICL: Json = {
    "name": "sncse",
    "before": "The sentence of",
    "before_positive": "The sentence of",
    "behind": "means",
    "end": "",
}
"""The prompt that hicl quotes (erratum E37): equal in all views, with the mask at its end."""

PRESETS: Mapping[str, Mapping[str, Json]] = {
    "simcse": {
        "paper": {**_SIMCSE, "learning_rate": 3e-5},
        "mlm": {**_SIMCSE, "learning_rate": 3e-5, "method": {"name": "simcse", "mlm": 0.1}},
        "bert_large": {**_SIMCSE, "learning_rate": 1e-5},
        "roberta_base": {**_SIMCSE, "batch_size": 512, "learning_rate": 1e-5},
        "roberta_large": {**_SIMCSE, "batch_size": 512, "learning_rate": 3e-5},
    },
    "consert": {
        "paper": {**_CONSERT, "learning_rate": 5e-7},
        "large": {
            **_CONSERT,
            "learning_rate": 5e-7,
            "evaluate_every": 100,
            "method": {"first": (), "second": ("shuffle",), "dropout": True},
        },
    },
    "mirror_bert": {
        "paper": _MIRROR,
        "drophead": {**_MIRROR, "method": {"name": "mirror_bert", "drophead": 0.2}},
        "code": {**_MIRROR, "method": {"pooling": "mean_with_pads"}},
    },
    "ict": {
        "paper": {"learning_rate": 1e-4, "warmup": 0.1, "method": {"temperature": 1.0}},
        "orqa": {
            "learning_rate": 1e-4,
            "warmup": 0.1,
            "method": {"temperature": 1.0, "projection": 128},
        },
    },
    "cpc": {"paper": {"method": {"bilinear": True, "temperature": 1.0}}},
    "conpono": {
        "paper": {
            "batch_size": 32,
            "learning_rate": 5e-5,
            "method": {"window": 4, "bilinear": True, "temperature": 1.0},
        }
    },
    "infocse_idc": {
        "paper": {
            **_MUTUAL,
            "steps": 200_000,
            "batch_size": 3200,
            "chunk": 128,
            "evaluate_every": 2_000,  # ours; ten of them are the paper's 20,000 steps of patience
            "patience": 10,
            "method": {"temperature": 1.0},
        }
    },
    "fine_tune": {"paper": {**_MUTUAL, "batch_size": 64, "method": {"temperature": 1.0}}},
    "condenser": {
        "paper": {"batch_size": 1024, "chunk": 128, "learning_rate": 1e-4, "warmup": 0.1}
    },
    "infocse_aux": {
        "code": _CONDENSED,
        "code_large": {**_CONDENSED, "method": {"mask_rate": 0.3, "skip_from": 6}},
        "paper": {**_SIMCSE, "learning_rate": 3e-5, "method": {"weight": 0.005, "head": "tanh"}},
    },
    "diffcse": {
        "code": _CONDENSED,
        "paper": {**_CONDENSED, "method": {"sample": "multinomial"}},
    },
    "rtd_mlm": {"paper": _CONDENSED},
    "esimcse": {
        "paper": {**_SIMCSE, "learning_rate": 3e-5, "method": {"rule": "paper"}},
        "code": {**_SIMCSE, "learning_rate": 3e-5, "method": {"momentum_init": "random"}},
        "large": {**_SIMCSE, "learning_rate": 1e-5},
        "roberta_base": {**_SIMCSE, "learning_rate": 1e-5, "method": {"repetition": 0.3}},
        "roberta_large": {
            **_SIMCSE,
            "learning_rate": 1e-5,
            "method": {"repetition": 0.28, "queue": 128},
        },
    },
    "sncse": {
        "paper": {**_FLOAT32, "learning_rate": 1e-5},
        "large": {**_FLOAT32, "batch_size": 128, "learning_rate": 5e-6},
        "roberta_base": {**_FLOAT32, "learning_rate": 1e-5, "method": {"weight": 5e-4}},
        "roberta_large": {
            **_FLOAT32,
            "batch_size": 128,
            "learning_rate": 5e-6,
            "method": {"weight": 5e-4},
        },
    },
    "hicl": {
        "paper": {**_SLICED, "learning_rate": 3e-5},
        "large": {**_SLICED, "batch_size": 128, "dtype": "bfloat16", "learning_rate": 1e-5},
        "v2": {**_SLICED, "learning_rate": 3e-5, "method": {"beta": 3e-5}},
        "over_esimcse": {
            **_SLICED,
            "learning_rate": 3e-5,
            "method": {"base": {"name": "esimcse", "queue": 640}},  # 2.5 batches, as ESimCSE's
        },
        "over_sncse": {**_SLICED, "learning_rate": 1e-5, "method": {"base": _SNCSE_OF_HICL}},
    },
    "clm_autoencoder": {
        "paper": _THESIS,
        "tsdae": {
            "batch_size": 8,
            "learning_rate": 3e-5,
            "schedule": "constant",
            "warmup": 0.0,
            "weight_decay": 0.0,
            "method": {"noise": 0.6, "tied": True, "per": "target"},
        },
        "multi_task": _TASKS,
    },
    "mlm_autoencoder": {"paper": _THESIS, "multi_task": _TASKS},
    "bce": {"paper": _THESIS},
    "ct": {"paper": {"batch_size": 16, "learning_rate": 1e-5, "warmup": 0.0}},
    "is_bert": {"paper": {"batch_size": 32, "evaluate_every": 1_000}},
    "sg_opt": {
        "paper": {
            "batch_size": 16,
            "learning_rate": 5e-5,
            "warmup": 0.1,
            "weight_decay": 0.0,
            "evaluate_every": 50,
            "patience": 10,
        }
    },
    "declutr": {
        "paper": {
            "batch_size": 16,
            "learning_rate": 5e-5,
            "schedule": "slanted",
            "warmup": 0.1,
            "weight_decay": 0.1,
        }
    },
}
"""Method -> preset -> changed settings of a training; methods/README.md has the sources."""

_CLS: Json = {"pooling": "cls_before_pooler"}
_MEAN: Json = {"pooling": "mean"}
_DOT: Json = {"similarity": "dot"}
_SHORT: Json = {"max_length": 32}
PRESET_ENCODERS: Mapping[str, Json] = {
    **dict.fromkeys(("simcse", "esimcse", "infocse_aux", "diffcse", "rtd_mlm"), _CLS | _SHORT),
    **dict.fromkeys(("hicl", "condenser", "sg_opt", "tsdae"), _CLS),
    **dict.fromkeys(("clm_autoencoder", "mlm_autoencoder", "bce"), _MEAN | _SHORT),
    **dict.fromkeys(("declutr", "ct", "is_bert"), _MEAN),
    **dict.fromkeys(("infocse_idc", "fine_tune"), _DOT | _SHORT),
    **dict.fromkeys(("conpono", "ict", "cpc"), _DOT),
    "sncse": _SHORT,
    "orqa": {**_DOT, "max_length": 64},
    "over_sncse": {},
    "consert": {**_MEAN, "max_length": 64},
    "mirror_bert": {**_MEAN, "max_length": 50},
}
"""Method, or preset with a paper of its own -> settings of the encoder.

These are the stated pooling and length, and inner products for a temperature of 1. The length of
HiCL is that of its segments. SNCSE pools at [MASK], which an encoder cannot store.
"""

RUN_PRESETS: Mapping[str, Mapping[str, Json]] = {
    "infocse_idc": {
        "auto": {"annotation": {"min_distance": 2, "positives": "related"}},
        "edges": {"annotation": {"min_distance": 2, "positives": "edge"}},
        "clusters": {"annotation": {"min_distance": 1, "positives": "cluster"}},
    }
}
"""Presets of a whole run. With `auto`, pairs are nearest or probably related sentences, never
neighbours; with `edges`, nearest only; with `clusters`, all pairs of a cluster, as in the paper.
docs/annotation.md compares them."""


def preset_of(method: str, name: str) -> Json:
    """Return the training settings of a preset, before validation.

    Raises:
        KeyError: the preset does not exist.
    """
    chosen = PRESETS[method][name]
    return {**chosen, "method": {"name": method, **chosen.get("method", {})}}


def encoder_of(method: str, name: str) -> Json:
    """Return the encoder settings of a preset."""
    return {**PRESET_ENCODERS.get(name, PRESET_ENCODERS.get(method, {}))}
