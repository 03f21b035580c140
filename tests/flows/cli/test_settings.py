"""Four layers of settings become one configuration, or an error with the setting's path."""

import json
import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import presets
from flows.benchmark_settings import BenchmarkSettings
from flows.cli.reproduce import table_settings
from flows.cli.settings import by_name, by_path, settings
from flows.experiments.parts import SHIPPED
from flows.presets import (
    PRETRAINED,
    STATIC,
    preset_warnings,
)
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import UsageError
from sentemb_core.store.machine import fast_precision
from sentemb_core.store.stages import flat
from tests.tiny import static


def made(*overrides: str, file: Path | None = None, **options: object):
    return settings(file, {"corpus.source": "docs.jsonl", **options}, overrides)


def refused(*overrides: str, **options: object) -> str:
    with pytest.raises(UsageError) as error:
        made(*overrides, **options)
    return str(error.value)


def written(folder: Path, text: str, name: str = "run.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def seeds_of(config) -> dict[str, int]:
    """Path -> value of every seed in a run's settings."""
    values = flat(config.model_dump(mode="json"))
    return {path: value for path, value in values.items() if path.endswith("seed")}


def test_a_source_alone_gives_a_run_from_random_vectors():
    config = made()
    assert config.encoder.name == "static"
    assert config.initialiser.learning_rate == STATIC["initialiser"]["learning_rate"]


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        (("training.steps=7",), 7),
        (("training.steps=7000",), STATIC["initialiser"]["steps"]),
        (("training.steps=7", "initialiser.steps=9"), 9),
        (("training.method=infocse_aux", "initialiser.method=condenser", "training.steps=7"), 7),
    ],
)
def test_the_steps_of_the_command_line_also_limit_an_initialiser(
    overrides: tuple[str, ...], steps: int
):
    assert made(*overrides).initialiser.steps == steps


def test_a_prompt_keeps_the_blank_at_its_end():
    encoder = made("encoder.query_prompt = query: ", "encoder.document_prompt=none").encoder
    assert (encoder.query_prompt, encoder.document_prompt) == ("query: ", "none")


def test_a_pretrained_encoder_needs_no_initialiser():
    config = made(**{"encoder.name": "minilm"})
    assert config.initialiser is None
    assert config.training.steps == PRETRAINED["training"]["steps"]


def test_each_layer_overrides_the_one_before(tmp_path: Path):
    file = written(tmp_path, "[training]\nsteps = 7\nbatch_size = 8\nseed = 9\n")
    config = made("training.seed=3", file=file, **{"training.batch_size": 16})
    assert (config.training.steps, config.training.batch_size, config.training.seed) == (7, 16, 3)
    assert config.training.learning_rate == STATIC["training"]["learning_rate"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("corpora/My posts.v2.jsonl", "My-posts-v2"),
        ("owner/ag_news", "ag_news"),
        ("posts.jsonl.gz", "posts"),
        ("_x-.csv", "x"),
        ("9" * 80, "9" * 64),
        ("Süddeutsche (März).jsonl", "Suddeutsche-Marz"),
        ("日本.jsonl", "corpus-cf2abf0c"),
    ],
)
def test_a_run_takes_the_name_of_its_corpus(source: str, name: str):
    assert made(**{"corpus.source": source}).name == name


def test_a_given_name_stays(tmp_path: Path, monkeypatch):
    file = written(tmp_path, 'name = "mine"\n')
    assert (made(file=file).name, made(file=file, name="ours").name) == ("mine", "ours")
    (tmp_path / "news").mkdir()
    monkeypatch.chdir(tmp_path / "news")
    assert made(**{"corpus.source": "."}).name == "news"


def test_one_seed_sets_every_part(tmp_path: Path):
    parts = ("encoder", "annotation", "initialiser", "training")
    assert seeds_of(made(**by_path({"seed": 7}))) == {f"{part}.seed": 7 for part in parts}
    config = made("initialiser.seed=3", "annotator.name=minilm", **by_path({"seed": 7}))
    assert seeds_of(config)["initialiser.seed"] == 3
    assert seeds_of(config)["annotator.seed"] == 7
    file = written(tmp_path, config.model_dump_json(), "config.json")
    assert set(seeds_of(settings(file, by_path({"seed": 8}), [])).values()) == {8}


def test_a_seed_of_a_part_in_a_file_stays_beside_the_seed_of_the_file(tmp_path: Path):
    file = written(tmp_path, "seed = 7\n[training]\nseed = 1\n")
    seeds = seeds_of(made(file=file))
    assert seeds.pop("training.seed") == 1
    assert set(seeds.values()) == {7}
    assert set(seeds_of(made(file=file, **by_path({"seed": 8}))).values()) == {8}


@pytest.mark.parametrize("options", [{"encoder.name": "minilm"}, {"training.method": "ict"}])
def test_a_seed_alone_adds_no_initialiser(options: dict[str, str]):
    config = made(**options, **by_path({"seed": 7}))
    assert config.initialiser is None
    assert set(seeds_of(config).values()) == {7}


def test_the_config_of_a_run_repeats_it(tmp_path: Path):
    config = made("rounds.max_rounds=2", "initialiser.method=none")
    assert config.initialiser is None
    file = written(tmp_path, config.model_dump_json(), "config.json")
    assert settings(file, {}, []) == config


@pytest.mark.parametrize(
    ("override", "values"),
    [
        ("training.step=3", ["training.step", "'steps'"]),
        ("trainin.steps=3", ["trainin", "'training'"]),
        ("training.steps=0", ["training.steps (--steps)", "found 0"]),
        ("training.steps=many", ["training.steps", "'many'"]),
        ("name=a b", ["name", "1-64", "'a b'"]),
        ("training.learning_rate=Infinity", ["training.learning_rate", "inf"]),
        ("training.method.temperature=Infinity", ["training.method.temperature", "inf"]),
        ("initialiser.method=infocse_idc", ["initialiser", "simcse"]),
        ("initialiser.method=fine_tune", ["'fine_tune'", "--cycles"]),
        ("training.method=simcsee", ["training.method (--method)", "'simcse'"]),
        ("training.method=infocse_plus", ["--cycles N --labels FILE"]),
        ("training.method=infocse", ["infocse_idc", "infocse_aux"]),
        ("training.method=TSDAE", ["--method clm_autoencoder --preset tsdae"]),
        ("training.method=whitening", ["--postprocess whitening"]),
        ("training.method=BM25", ["compare BM25 MODEL"]),
        ("training.method=glove", ["--encoder FILE"]),
        ("batch_size=12", ["'initialiser.batch_size'", "'training.batch_size'"]),
        ("count=12", ["count", "'labels.count'"]),
        ("xyz=1", ["xyz", "preset", "seed", "cycles", "python -m flows settings"]),
        ("random_head=true", ["'training.method.random_head'"]),
        ("initialiser.method.names=1", ["'name'", "settings initialiser.method"]),
        ('training.method={"name": "hicl", "base": "esimcse"}', ["training.method.base.name="]),
        ("training.method.rule=paper", ["training.method.rule"]),
        ("training.steps", ["PATH=VALUE", "'training.steps'"]),
        ("annotation=3", ["--set annotation.KEY=VALUE"]),
    ],
)
def test_an_error_has_the_path_the_value_and_the_closest_name(override: str, values: list[str]):
    message = refused(override)
    assert message.startswith("E001 ")
    assert [value for value in values if value not in message] == []


def test_every_invalid_setting_has_a_line():
    lines = refused("training.steps=0", "rounds.patience=0").removeprefix("E001 ").splitlines()
    assert [line.split()[0].rstrip(":") for line in lines] == ["training.steps", "rounds.patience"]


KMEANS = {"annotation.clustering": "kmeans"}
CLUSTER_BATCHES = {"training.method.batches": "cluster"}


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (KMEANS | {"annotation.top_k": 2}, "annotation: .*top_k = 2 "),
        (KMEANS | {"annotation.mutual": True}, "annotation: .*mutual = True "),
        (KMEANS | {"annotation.min_distance": 2}, "annotation: .*min_distance = 2 "),
        *(
            ({"annotation.positives": positives, **wrong}, f"'{positives}'.*{names}")
            for positives in ("edge", "related")
            for wrong, names in (
                (KMEANS, "clustering = 'partition'"),
                ({"annotation.max_partners": 2}, "max_partners"),
                (CLUSTER_BATCHES, "batches to 'pair'"),
            )
        ),
        (
            {"annotation.positives": "related", "annotation.keep_embeddings": False},
            "annotation: .*keep_embeddings is false",
        ),
        (
            CLUSTER_BATCHES | {"annotation.max_partners": 3},
            "max_partners is 3: .*max_per_cluster.*batches to 'pair'",
        ),
        (
            CLUSTER_BATCHES | {"annotation.min_distance": 2},
            "min_distance is 2: .*batches to 'pair'",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_refused(arguments: dict[str, object], values: str):
    assert re.search(f"^E001 .*{values}|^E001 {values}", refused(**arguments))
    for path in arguments:
        made(**{path: arguments[path]})


@pytest.mark.parametrize(
    ("name", "content"),
    [("run.toml", "[training\n"), ("run.toml", "training = \xff"), ("run.json", "[1]")],
)
def test_a_broken_file_is_a_usage_error(tmp_path: Path, name: str, content: str):
    file = tmp_path / name
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=f"E001 .*{file}: "):
        settings(file, {}, [])


@pytest.mark.parametrize(
    ("content", "options", "path", "value"),
    [
        ("[encoder]\nname = 3", {}, "encoder.name (--encoder)", "found 3"),
        ("[initialiser]", {"training.method.name": "simcse"}, "initialiser", "--initialiser NAME"),
        ("[training]\nmethod = ['a']", {}, "training.method (--method)", "\"['a']\""),
        (
            "[training]\nmethod = ['a']",
            {"preset": "auto"},
            "training.method (--method)",
            "\"['a']\"",
        ),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_path(
    tmp_path: Path, content: str, options: dict[str, object], path: str, value: str
):
    message = refused(file=written(tmp_path, content), **options)
    assert message.startswith(f"E001 {path}: ")
    assert value in message


def test_paths_of_a_run_are_absolute(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").touch()
    Path("minilm").mkdir()
    Path("mine").mkdir()
    run = made("annotator.name=mine", **{"encoder.name": "minilm", "labels.source": "docs.jsonl"})
    file = str(tmp_path / "docs.jsonl")
    assert (run.corpus.source, run.labels.source) == (file, file)
    assert (run.encoder.name, run.annotator.name) == ("minilm", str(tmp_path / "mine"))
    assert made(**{"corpus.source": "user/name"}).corpus.source == "user/name"


def test_a_static_encoder_in_a_folder_has_the_rates_of_a_table_and_no_initialiser(tmp_path: Path):
    texts = iter(["a form to fill", "a form to sign"])
    save_encoder(start_encoder(EncoderConfig(name="static", dim=8), texts), tmp_path, "card")
    run = made(**{"encoder.name": str(tmp_path)})
    assert run.initialiser is None
    assert run.training.learning_rate == STATIC["training"]["learning_rate"]
    assert list(preset_warnings(run)) == []


def test_bfloat16_is_warned_of_where_it_is_emulated(monkeypatch):
    run = made("annotation.dtype=bfloat16", "training.dtype=bfloat16")
    monkeypatch.setattr(presets, "FAST", "float32")
    parts = ("annotation", "training")
    for part, line in zip(parts, preset_warnings(run), strict=True):
        assert line.startswith(f"{part}.dtype is bfloat16")
        assert line.endswith(f" {part}.dtype=float32.")
    assert [*preset_warnings(made(*(f"{part}.dtype=float32" for part in parts)))] == []
    monkeypatch.setattr(presets, "FAST", "bfloat16")
    assert [*preset_warnings(run)] == []


def test_transformers_compute_in_the_fast_precision_of_the_machine():
    for encoder in ("transformer", "minilm"):
        run = made(**{"encoder.name": encoder})
        assert {run.training.dtype} == {presets.FAST} == {fast_precision()}
    assert made(**{"encoder.name": "static"}).training.dtype == "float32"


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        ("training.method=conpono", {}),
        ("training.method=conpono preset=paper", {"training": 5e-5}),
        ("training.method=conpono preset=paper training.learning_rate=0.005", {}),
        ("training.method=conpono preset=paper encoder.name=minilm", {}),
        ("training.RATE=5e-5 initialiser.RATE=5e-5", {"initialiser": 5e-5, "training": 5e-5}),
        ("training.RATE=5e-5 encoder.name=FOLDER", {"training": 5e-5}),
        ("encoder.name=minilm", {}),
        ("encoder.name=transformer", {}),
        (
            "training.RATE=0.002 initialiser.RATE=0.005 initialiser.method=ict encoder.name=minilm",
            {"initialiser": 0.005, "training": 0.002},
        ),
    ],
)
def test_a_rate_of_the_other_kind_of_encoder_is_warned_of(
    tmp_path: Path, overrides: str, warned: dict[str, float]
):
    save_encoder(static(), tmp_path / "mine", "")
    named = overrides.replace("FOLDER", str(tmp_path / "mine")).replace("RATE", "learning_rate")
    lines = [*preset_warnings(made(*named.split()))]
    for (part, rate), line in zip(warned.items(), lines, strict=True):
        assert line.startswith(f"{part}.learning_rate is {rate:g},")
        assert line.endswith(".learning_rate=5e-05.") == (rate > 1e-3)


def test_a_preset_in_a_file_comes_before_the_other_settings(tmp_path: Path):
    file = written(tmp_path, 'preset = "v2"\n[training.method]\nname = "hicl"\nsegment = 24\n')
    paths = by_path({"method": "hicl", "preset": "v2"})
    for layer in ({"file": file}, paths):
        run = made("training.method.alpha=0.2", **layer)
        method = run.training.method
        assert (method.name, method.beta, method.alpha) == ("hicl", 3e-5, 0.2)
        assert (run.training.learning_rate, run.training.batch_size) == (3e-5, 256)
        assert run.training.steps == STATIC["initialiser"]["steps"]
    assert made("training.method.beta=0.1", **paths).training.method.beta == 0.1
    assert made(preset="paper").training.method.name == "infocse_idc"
    assert made(preset="paper").training.batch_size == 3200


def test_another_method_drops_the_settings_of_the_files_method(tmp_path: Path):
    file = written(tmp_path, '[training.method]\nname = "hicl"\nsegment = 24\n')
    assert made(file=file, **by_path({"method": "simcse"})).training.method.name == "simcse"


def test_a_preset_on_the_command_line_comes_after_the_file(tmp_path: Path):
    file = written(tmp_path, made().model_dump_json(), "config.json")
    assert settings(file, {}, []).annotation.positives == "related"
    assert settings(file, {"preset": "edges"}, []).annotation == made(preset="edges").annotation
    assert settings(file, {}, ["preset=edges"]).annotation == made(preset="edges").annotation
    assert settings(file, {"preset": "clusters"}, []).annotation.positives == "cluster"
    own = settings(file, {"preset": "auto"}, ["annotation.positives=cluster"])
    assert (own.annotation.positives, own.annotation.min_distance) == ("cluster", 2)


@pytest.mark.parametrize("method", ["ict", "cpc", "conpono", "infocse_idc"])
def test_papers_without_a_temperature_use_inner_products(method: str):
    run = made(**by_path({"method": method, "preset": "paper"}))
    assert (run.encoder.similarity, run.training.method.temperature) == ("dot", 1)
    ours = made("encoder.similarity=cosine", **by_path({"method": method, "preset": "paper"}))
    assert ours.encoder.similarity == "cosine"


@pytest.mark.parametrize("initialiser", [None, "ict", "simcse"])
def test_every_loss_of_a_papers_run_has_its_temperature(initialiser: str | None):
    options = {"preset": "paper", "cycles": 2, "initialiser": initialiser}
    run = made(**by_path(options))
    assert run.initialiser.method.name == (initialiser or "conpono")
    parts = (run.initialiser, run.training, run.fine_tuning)
    assert [part.method.temperature for part in parts] == [1, 1, 1]
    own = made("fine_tuning.method.temperature=0.5", **by_path(options))
    assert own.fine_tuning.method.temperature == 0.5


@pytest.mark.parametrize("initialiser", ["condenser", "sg_opt", "clm_autoencoder"])
def test_an_initialiser_with_another_similarity_keeps_its_settings(initialiser: str):
    run = made(**by_path({"preset": "paper", "initialiser": initialiser}))
    assert run.initialiser == made(**by_path({"initialiser": initialiser})).initialiser


def test_a_condenser_stage_trains_the_head_of_the_layer_that_the_method_uses():
    """InfoCSE's code takes layer 6 of 24; a Condenser stage takes the middle layer by default."""
    options = by_path({"method": "infocse_aux", "preset": "code_large", "initialiser": "condenser"})
    run = made(**options)
    assert run.training.method.skip_from == run.initialiser.method.skip_from == 6
    own = made("initialiser.method.skip_from=12", **options)
    assert own.initialiser.method.skip_from == 12
    other = made(**by_path({"method": "infocse_aux", "preset": "code", "initialiser": "condenser"}))
    assert other.initialiser.method.skip_from is None
    assert made(**by_path({"method": "infocse_aux", "preset": "code_large"})).initialiser is None


@pytest.mark.parametrize("method", ["infocse_idc", "simcse"])
def test_settings_of_an_initialiser_need_one(method: str):
    options = by_path({"encoder": "minilm", "method": method})
    assert refused("initialiser.steps=50", **options).startswith("E001 initialiser.steps: ")
    named = made("initialiser.steps=50", **options, **by_path({"initialiser": "conpono"}))
    assert named.initialiser.steps == 50
    misspelt = by_path({"encoder": "minilm", "method": "simcs"})
    assert "'simcse'" in refused("initialiser.steps=50", **misspelt)
    assert "initialiser.stepz" in refused("initialiser.method=none", "initialiser.stepz=50")


def test_a_preset_brings_no_initialiser():
    assert made(**by_path({"preset": "paper", "encoder": "minilm"})).initialiser is None
    assert made("initialiser.method=none", preset="paper").initialiser is None


def test_a_preset_sets_the_pooling_of_its_paper():
    options = by_path({"method": "simcse", "preset": "paper", "encoder": "minilm"})
    assert made(**options).encoder.pooling == "cls_before_pooler"
    assert made("encoder.pooling=mean", **options).encoder.pooling == "mean"
    assert made(**options).encoder.name == "minilm"


def test_the_presets_auto_and_edges_change_only_the_annotation():
    run = made(preset="auto")
    assert (run.annotation.min_distance, run.annotation.positives) == (2, "related")
    assert (run.training, run.encoder) == (made().training, made().encoder)
    assert made("annotation.positives=edge", preset="auto") == made(preset="edges")


PIECES = st.sampled_from(
    ["training", "corpus", ".", "encoder.name", "steps", "training.method", "annotation", "[", "]",
     "{", "}", '"a"', ":", ",", "1e999", "NaN", "null", "-1", "9" * 5_000, "\\u0000", "\\ud800",
     "=", "a." * 30, "[" * 3_000, '{"a":' * 3_000, "\0", "\ud800", "true", "\n", "'", " "]
)  # fmt: skip
TEXT = st.lists(PIECES, max_size=8).map("".join)
PATHS = st.sampled_from(
    ["training.steps", "training.method", "corpus.encoding", "corpus.source", "encoder", "name",
     "training", "labels.source", "encoder.query_prompt", "rounds.max_rounds", "seed", "preset"]
)  # fmt: skip


@given(st.lists(st.tuples(PATHS | TEXT, TEXT).map("=".join), max_size=3))
def test_any_override_is_a_setting_or_a_usage_error(overrides: list[str]):
    with suppress(UsageError):
        made(*overrides)


@given(TEXT | st.binary(max_size=40), st.sampled_from(["run.toml", "config.json"]))
def test_any_file_has_settings_or_is_a_usage_error(content: str | bytes, name: str):
    with TemporaryDirectory() as folder, suppress(UsageError):
        file = Path(folder, name)
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        file.write_bytes(data)
        made(file=file)


@pytest.mark.parametrize(
    "override",
    ["a" + ".a" * 10_000 + "=1", "training=" + '{"a":' * 500 + "1" + "}" * 500,
     'corpus.encoding="a\\u0000b"', 'encoder.name="\\ud800"'],
    ids=["deep path", "deep value", "NUL", "half a pair"],
)  # fmt: skip
def test_deep_and_unreadable_settings_are_usage_errors(tmp_path: Path, override: str):
    assert refused(override)
    path, _, value = override.partition("=")
    text = "{" + f'"{path.split(".")[0]}": {value}' + "}"
    if "." not in path[20:]:
        with pytest.raises(UsageError):
            made(file=written(tmp_path, text, "config.json"))
    with pytest.raises(UsageError):
        made(file=written(tmp_path, f"{path} = 1\nx = " + "[" * 5_000))
    with pytest.raises(UsageError):
        made(file=Path("/dev/zero"))


def test_settings_of_an_unnamed_method_are_those_of_self_annotation():
    method = made("training.method.batches=cluster").training.method
    assert (method.name, method.batches) == ("infocse_idc", "cluster")
    assert made("training.method.rule=paper", **by_path({"method": "esimcse"})).training.method.rule


@pytest.mark.parametrize(
    ("method", "known"), [("simcse", "paper, mlm, bert_large"), ("infocse_idc", "paper")]
)
def test_an_unknown_preset_is_answered_with_the_known_ones(method: str, known: str):
    message = refused(**by_path({"method": method, "preset": "nature"}))
    assert re.search(rf"^E001 preset: {method} .*'nature'.*: {known}", message)


def test_few_shot_curves_use_the_shipped_corpus_if_the_data_folder_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SENTEMB_DATA", str(tmp_path))
    assert table_settings("few-shot", {}).data == str(SHIPPED.parent)
    (tmp_path / SHIPPED.name).touch()
    assert table_settings("few-shot", {}).data == str(tmp_path)


def test_tasks_beside_a_beir_folder_need_a_data_folder(tmp_path: Path):
    asked = BenchmarkSettings(models=("minilm",), beir=(str(tmp_path / "mine"),), tasks=("sts",))
    with pytest.raises(UsageError, match=r"E001 .*--data .*\$SENTEMB_DATA"):
        asked.places()
    named = asked.model_copy(update={"tasks": ("mine",), "split": "test"})
    assert [task.name for task, _ in named.places()] == ["mine"]


ENGLISH = ["The committee met on Monday.", "It asked the city for better buses and trains."]
GERMAN = ["Der Ausschuss tagte am Montag.", "Er verlangte bessere Verbindungen zwischen Vororten."]


@pytest.mark.weights
@pytest.mark.parametrize(
    ("sentences", "encoder", "positives"),
    [(ENGLISH, "minilm", "edge"), (GERMAN, "static", "related")],
)
def test_a_run_starts_from_an_encoder_that_knows_its_words(
    tmp_path: Path, sentences: list[str], encoder: str, positives: str
):
    corpus = written(tmp_path, json.dumps({"sentences": sentences}), "corpus.jsonl")
    run = settings(None, {"corpus.source": str(corpus)}, [])
    assert (run.encoder.name, run.annotation.positives) == (encoder, positives)
    own = settings(None, {"corpus.source": str(corpus), "encoder.name": "transformer"}, [])
    assert (own.encoder.name, own.annotation.positives) == ("transformer", "related")


@pytest.mark.parametrize(
    "own",
    [
        {"annotation.clustering": "kmeans"},
        {"annotation.positives": "cluster"},
        {"annotation.max_partners": 2},
        {"training.method.batches": "cluster", "training.method.name": "infocse_idc"},
    ],
)
def test_own_pairs_replace_the_default_ones(own: dict[str, object]):
    run = settings(None, {"corpus.source": "d.jsonl", "encoder.name": "static", **own}, [])
    assert (run.annotation.positives, run.annotation.min_distance) == ("cluster", 1)


def test_options_of_python_are_paths_of_settings():
    assert by_name({"encoder": "static", "id_column": "key", "returns": "encoder"}) == {
        "encoder.name": "static",
        "corpus.id_column": "key",
        "returns": "encoder",
    }
    with pytest.raises(UsageError, match="'encoder'"):
        by_name({"encodr": "static"})
