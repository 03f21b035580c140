"""Preset, file, options and overrides become one configuration, or a clear error."""

from pathlib import Path

import pytest

from flows import presets
from flows.benchmark_settings import BenchmarkSettings
from flows.cli.settings import by_path, settings
from flows.cli.table_commands import table_settings
from flows.demo import SHIPPED
from flows.presets import (
    PRETRAINED,
    STATIC,
    high_learning_rate_warnings,
    slow_products,
    slow_trainings,
)
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import UsageError
from sentemb_core.store.machine import fast_precision
from sentemb_core.store.stages import flat


def made(*overrides: str, file: Path | None = None, **options: object):
    return settings(file, {"corpus.source": "docs.jsonl", **options}, overrides)


def test_a_source_alone_is_a_run_from_nothing():
    config = made()
    assert config.encoder.name == "static"
    assert config.initialiser is not None
    assert config.initialiser.learning_rate == STATIC["initialiser"]["learning_rate"]


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
def test_a_run_without_a_name_is_called_as_its_corpus_is(source: str, name: str):
    assert made(**{"corpus.source": source}).name == name


def test_a_folder_has_its_name_however_it_is_written(tmp_path: Path, monkeypatch):
    (tmp_path / "news").mkdir()
    monkeypatch.chdir(tmp_path / "news")
    assert made(**{"corpus.source": "."}).name == "news"


def test_a_name_that_is_given_stays(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text('name = "mine"\n')
    assert made(file=file).name == "mine"
    assert made(file=file, name="ours").name == "ours"


def test_a_pretrained_encoder_annotates_at_once():
    config = made(**{"encoder.name": "minilm"})
    assert config.initialiser is None
    assert config.training.steps == PRETRAINED["training"]["steps"]


def test_an_override_beats_an_option_beats_the_file_beats_the_preset(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("[training]\nsteps = 7\nbatch_size = 8\nseed = 9\n")
    config = made("training.seed=3", file=file, **{"training.batch_size": 16})
    assert (config.training.steps, config.training.batch_size, config.training.seed) == (7, 16, 3)
    assert config.training.learning_rate == STATIC["training"]["learning_rate"]


def seeds_of(config) -> dict[str, int]:
    """Path -> value of every seed that a run's settings hold."""
    told = flat(config.model_dump(mode="json"))
    return {path: value for path, value in told.items() if path.endswith("seed")}


def test_one_seed_is_that_of_every_part_there_is(tmp_path: Path):
    assert seeds_of(made(**by_path({"seed": 7}))) == {
        "encoder.seed": 7,
        "annotation.seed": 7,
        "initialiser.seed": 7,
        "training.seed": 7,
    }
    config = made("initialiser.seed=3", "annotator.name=minilm", **by_path({"seed": 7}))
    assert seeds_of(config)["initialiser.seed"] == 3
    assert seeds_of(config)["annotator.seed"] == 7
    file = tmp_path / "config.json"
    file.write_text(config.model_dump_json())
    assert set(seeds_of(settings(file, by_path({"seed": 8}), [])).values()) == {8}


def test_a_part_of_a_file_keeps_its_own_seed_beside_the_files_one(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("seed = 7\n[training]\nseed = 1\n")
    told = seeds_of(made(file=file))
    assert told.pop("training.seed") == 1
    assert set(told.values()) == {7}
    assert set(seeds_of(made(file=file, **by_path({"seed": 8}))).values()) == {8}


@pytest.mark.parametrize("settings_", [{"encoder.name": "minilm"}, {"training.method": "ict"}])
def test_a_seed_alone_is_no_initialiser(settings_: dict[str, str]):
    config = made(**settings_, **by_path({"seed": 7}))
    assert config.initialiser is None
    assert set(seeds_of(config).values()) == {7}


def test_the_settings_beside_a_report_repeat_its_run(tmp_path: Path):
    config = made("rounds.max_rounds=2", "initialiser.method=none")
    file = tmp_path / "config.json"
    file.write_text(config.model_dump_json())
    assert settings(file, {}, []) == config


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("training.step=3", "did you mean 'steps'"),
        ("trainin.steps=3", "did you mean 'training'"),
        ("training.steps=0", "training.steps"),
        ("training.steps=many", "found 'many'"),
        ("name=a b", "name has 1-64 letters, digits, '_' or '-', a letter or a digit first; found"),
        ("training.learning_rate=Infinity", "should be a finite number, found inf"),
        ("training.method.temperature=Infinity", "should be a finite number, found inf"),
        ("initialiser.method=infocse_idc", "the initialiser runs before any annotation"),
        ("initialiser.method=fine_tune", "the initialiser reads no labelled pairs"),
        ("training.method=simcsee", "training.method (--method): there is no 'simcsee'; did you"),
        ("training.method=infocse_plus", "is no method; InfoCSE++ is a run with --cycles N"),
        ("training.method=infocse", "two papers have this name"),
        ("training.method=TSDAE", "take --method clm_autoencoder --preset tsdae"),
        ("training.method=whitening", "--postprocess whitening"),
        ("training.method=BM25", "compare BM25 MODEL"),
        ("training.method=glove", "--encoder FILE"),
        ("batch_size=12", "did you mean 'initialiser.batch_size' or 'training.batch_size'?"),
        ("count=12", "count: there is no such setting; did you mean 'labels.count'?"),
        ("xyz=1", "control, preset, seed, cycles, fine_tuning (`python -m flows settings`"),
        ("random_head=true", " or 'training.method.random_head'?"),
        ("initialiser.method.names=1", "did you mean 'name'"),
        (
            'training.method={"name": "hicl", "base": "esimcse"}',
            "training.method.base: name it, as in --set training.method.base.name=simcse",
        ),
        ("training.steps", "KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_named_with_its_path_and_the_way_out(override: str, told: str):
    with pytest.raises(UsageError, match="E001") as refused:
        made(override)
    assert told in str(refused.value)


def test_what_a_run_reads_is_kept_by_its_whole_path(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").touch()
    Path("minilm").mkdir()
    Path("mine").mkdir()
    run = made("annotator.name=mine", **{"encoder.name": "minilm", "labels.source": "docs.jsonl"})
    whole = str(tmp_path / "docs.jsonl")
    assert (run.corpus.source, run.labels.source) == (whole, whole)
    assert (run.encoder.name, run.annotator.name) == ("minilm", str(tmp_path / "mine"))
    assert made(**{"corpus.source": "user/name"}).corpus.source == "user/name"


def test_a_static_encoder_in_a_folder_has_the_rates_of_a_table_and_no_initialiser(tmp_path: Path):
    texts = iter(["a form to fill", "a form to sign"])
    save_encoder(start_encoder(EncoderConfig(name="static", dim=8), texts), tmp_path, "card")
    run = made(**{"encoder.name": str(tmp_path)})
    assert run.initialiser is None
    assert run.training.learning_rate == STATIC["training"]["learning_rate"]
    assert not slow_trainings(run)


def test_bfloat16_is_warned_of_where_it_is_emulated(monkeypatch):
    asked = made("annotation.dtype=bfloat16", "training.dtype=bfloat16")
    monkeypatch.setattr(presets, "FAST", "float32")
    annotation, training = slow_products(asked)
    assert annotation.startswith("annotation.dtype is bfloat16, which this machine has no units")
    assert training.endswith("set training.dtype=float32.")
    assert slow_products(made("annotation.dtype=float32", "training.dtype=float32")) == []
    monkeypatch.setattr(presets, "FAST", "bfloat16")
    assert slow_products(asked) == []


def test_presets_of_transformers_compute_as_fast_as_the_machine_can():
    for encoder in ("transformer", "minilm"):
        told = settings(None, {"corpus.source": "SOURCE", "encoder.name": encoder}, [])
        assert {told.training.dtype} == {presets.FAST} == {fast_precision()}
    assert made(**{"encoder.name": "static"}).training.dtype == "float32"


def test_without_a_source_the_way_out_is_shown():
    with pytest.raises(UsageError, match=r"python -m flows run documents\.jsonl"):
        settings(None, {}, [])
    with pytest.raises(UsageError, match=r"no corpus: name a source"):
        settings(None, {"corpus.text_column": "body"}, [])


def test_a_rule_of_the_whole_run_is_one_sentence():
    with pytest.raises(UsageError) as refused:
        made("labels.count=0", **{"training.method": "fine_tune"})
    assert str(refused.value) == (
        "E001 labels.count is 0, and fine-tuning needs labels: take at least 2"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [("run.toml", "[training\n"), ("run.toml", "training = \xff"), ("run.json", "[1]")],
)
def test_a_broken_file_is_a_usage_error(tmp_path: Path, name: str, content: str):
    file = tmp_path / name
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match="cannot be read as settings"):
        settings(file, {}, [])


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("[encoder]\nname = 3", {}, r"encoder\.name .*valid string, found 3"),
        ("[initialiser]", {"training.method.name": "simcse"}, r"E001 initialiser: this run has no"),
        ("[training]\nmethod = ['a']", {}, r"training\.method .*there is no \"\['a'\]\""),
        ("[training]\nmethod = ['a']", {"preset": "auto"}, r"training\.method .*there is no"),
    ],
)
def test_values_of_another_type_and_empty_tables_are_usage_errors(
    tmp_path: Path, content: str, options: dict[str, object], told: str
):
    file = tmp_path / "run.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        made(file=file, **options)


def test_a_preset_of_the_method_comes_behind_every_setting_given_by_hand(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text('preset = "v2"\n[training.method]\nname = "hicl"\nsegment = 24\n')
    paths = by_path({"method": "hicl", "preset": "v2"})
    for given in ({"file": file}, paths):
        run = made("training.method.alpha=0.2", **given)
        method = run.training.method
        assert (method.name, method.beta, method.alpha) == ("hicl", 3e-5, 0.2)
        assert (run.training.learning_rate, run.training.batch_size) == (3e-5, 256)
        assert run.training.steps == STATIC["initialiser"]["steps"]
    assert made("training.method.beta=0.1", **paths).training.method.beta == 0.1
    assert made(preset="paper").training.method.name == "infocse_idc"
    assert made(preset="paper").training.batch_size == 3200


@pytest.mark.parametrize("method", ["ict", "cpc", "conpono", "infocse_idc"])
def test_without_a_temperature_inner_products_are_compared(method: str):
    run = made(**by_path({"method": method, "preset": "paper"}))
    assert (run.encoder.similarity, run.training.method.temperature) == ("dot", 1)
    ours = made("encoder.similarity=cosine", **by_path({"method": method, "preset": "paper"}))
    assert ours.encoder.similarity == "cosine"


@pytest.mark.parametrize("initialiser", [None, "ict", "simcse"])
def test_every_loss_of_the_papers_run_has_its_temperature(initialiser: str | None):
    options = {"preset": "paper", "cycles": 2, "initialiser": initialiser}
    run = made(**by_path(options))
    assert run.initialiser.method.name == (initialiser or "conpono")
    parts = (run.initialiser, run.training, run.fine_tuning)
    assert [part.method.temperature for part in parts] == [1, 1, 1]
    own = made("fine_tuning.method.temperature=0.5", **by_path(options))
    assert own.fine_tuning.method.temperature == 0.5


@pytest.mark.parametrize("initialiser", ["condenser", "sg_opt", "clm_autoencoder"])
def test_an_initialiser_that_compares_otherwise_keeps_its_own(initialiser: str):
    run = made(**by_path({"preset": "paper", "initialiser": initialiser}))
    plain = made(**by_path({"initialiser": initialiser}))
    assert run.initialiser == plain.initialiser


def test_the_preset_of_a_large_start_trains_its_head_for_the_layer_it_is_used_on():
    """InfoCSE's code takes layer 6 of 24, where a Condenser stage takes the middle one."""
    options = by_path({"method": "infocse_aux", "preset": "code_large", "initialiser": "condenser"})
    run = made(**options)
    assert run.training.method.skip_from == run.initialiser.method.skip_from == 6
    own = made("initialiser.method.skip_from=12", **options)
    assert own.initialiser.method.skip_from == 12
    other = made(**by_path({"method": "infocse_aux", "preset": "code", "initialiser": "condenser"}))
    assert other.initialiser.method.skip_from is None
    assert made(**by_path({"method": "infocse_aux", "preset": "code_large"})).initialiser is None


def test_settings_of_a_method_that_is_not_named_are_self_annotations():
    method = made("training.method.batches=cluster").training.method
    assert (method.name, method.batches) == ("infocse_idc", "cluster")
    with pytest.raises(UsageError, match=r"E001 training\.method\.rule: there is no"):
        made("training.method.rule=paper")
    assert made("training.method.rule=paper", **by_path({"method": "esimcse"})).training.method.rule


@pytest.mark.parametrize("method", ["infocse_idc", "simcse"])
def test_steps_of_an_initialiser_that_a_run_has_not_are_told(method: str):
    options = by_path({"encoder": "minilm", "method": method})
    with pytest.raises(
        UsageError, match=r"initialiser\.steps: this run has no .* from random weights .*'minilm'"
    ):
        made("initialiser.steps=50", **options)
    named = made("initialiser.steps=50", **options, **by_path({"initialiser": "conpono"}))
    assert named.initialiser.steps == 50
    with pytest.raises(UsageError, match="there is no 'simcs'; did you mean 'simcse'"):
        made("initialiser.steps=50", **by_path({"encoder": "minilm", "method": "simcs"}))


def test_a_preset_brings_no_initialiser():
    run = made(**by_path({"preset": "paper", "encoder": "minilm"}))
    assert run.initialiser is None
    assert made("initialiser.method=none", preset="paper").initialiser is None


def test_a_preset_asks_for_its_papers_pooling_unless_another_is_named():
    options = by_path({"method": "simcse", "preset": "paper", "encoder": "minilm"})
    assert made(**options).encoder.pooling == "cls_before_pooler"
    assert made("encoder.pooling=mean", **options).encoder.pooling == "mean"
    assert made(**options).encoder.name == "minilm"


def test_the_preset_auto_is_of_the_annotation():
    run = made(preset="auto")
    assert (run.annotation.min_distance, run.annotation.positives) == (2, "related")
    assert run.training == made().training
    assert run.encoder == made().encoder
    assert made("annotation.positives=cluster", preset="auto").annotation.min_distance == 2


def test_the_preset_edges_is_auto_without_its_random_pairs():
    apart = made("annotation.positives=edge", preset="auto")
    assert made(preset="edges") == apart


@pytest.mark.parametrize(
    "wrong",
    [
        ("annotation.clustering=kmeans",),
        ("annotation.max_partners=2",),
        ("training.method.name=infocse_idc", "training.method.batches=cluster"),
    ],
)
@pytest.mark.parametrize("positives", ["edge", "related"])
def test_edges_are_pairs_of_the_pruned_graph_as_they_are(positives: str, wrong: tuple[str, ...]):
    with pytest.raises(UsageError, match=rf"E001 .*'{positives}'"):
        made(f"annotation.positives={positives}", *wrong)


def test_cluster_batches_read_no_pairs_that_a_cap_could_thin():
    cluster = ("training.method.name=infocse_idc", "training.method.batches=cluster")
    capped = "annotation.max_partners=3"
    with pytest.raises(UsageError, match=r"E001 .*max_partners \(3\) .*max_per_cluster"):
        made(*cluster, capped)
    assert made(capped).annotation.max_partners == 3
    assert made(*cluster).training.method.batches == "cluster"


def test_cluster_batches_read_no_pairs_that_a_distance_could_thin():
    cluster = ("training.method.name=infocse_idc", "training.method.batches=cluster")
    with pytest.raises(UsageError, match=r"E001 .*min_distance \(2\).*batches to 'pair'"):
        made(*cluster, "annotation.min_distance=2")
    assert made(*cluster).annotation.min_distance == 1


@pytest.mark.parametrize(
    "setting", ["top_k=2", "mutual=true", "min_distance=2"], ids=lambda setting: setting
)
def test_kmeans_takes_no_setting_of_a_graph_that_it_has_not(setting: str):
    name = setting.partition("=")[0]
    kmeans = "annotation.clustering=kmeans"
    with pytest.raises(UsageError, match=rf"E001 annotation: k-means has no graph, which {name} "):
        made(kmeans, f"annotation.{setting}")
    assert made(kmeans).annotation.clustering == "kmeans"


def test_related_pairs_are_drawn_by_vectors_that_are_kept():
    with pytest.raises(UsageError, match=r"E001 annotation: .*keep_embeddings is false"):
        made("annotation.keep_embeddings=false", preset="auto")


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("simcse", "simcse has no 'nature'; known: paper, mlm, bert_large"),
        ("infocse_idc", "known: paper"),
    ],
)
def test_a_preset_that_a_method_lacks_is_answered_with_those_it_has(method: str, told: str):
    with pytest.raises(UsageError, match=f"E001 preset: .*{told}"):
        made(**by_path({"method": method, "preset": "nature"}))


def test_a_preset_on_the_command_line_comes_above_the_settings_of_a_file(tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_text(made().model_dump_json())
    assert settings(file, {}, []).annotation.positives == "cluster"
    assert settings(file, {"preset": "auto"}, []).annotation == made(preset="auto").annotation
    assert settings(file, {}, ["preset=auto"]).annotation == made(preset="auto").annotation
    own = settings(file, {"preset": "auto"}, ["annotation.positives=cluster"])
    assert (own.annotation.positives, own.annotation.min_distance) == ("cluster", 2)


def test_the_shipped_corpus_serves_few_shot_curves_where_the_data_folder_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SENTEMB_DATA", str(tmp_path))
    assert table_settings("few-shot", {}).data == str(SHIPPED.parent)
    (tmp_path / SHIPPED.name).touch()
    assert table_settings("few-shot", {}).data == str(tmp_path)


def test_tasks_that_are_asked_for_want_a_folder_beside_those_of_beir(tmp_path: Path):
    asked = BenchmarkSettings(models=("minilm",), beir=(str(tmp_path / "mine"),), tasks=("sts",))
    with pytest.raises(UsageError, match="Name the folder of the tasks"):
        asked.places()
    named = asked.model_copy(update={"tasks": ("mine",), "split": "test"})
    assert [task.name for task, _ in named.places()] == ["mine"]


def test_a_tables_rates_are_warned_of_where_a_transformer_learns(tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_text(made().model_dump_json())
    first, then = high_learning_rate_warnings(settings(file, {"encoder.name": "minilm"}, []))
    assert first.startswith(
        "initialiser.learning_rate is 0.005, a rate for tables of token vectors"
    )
    assert then.endswith("set training.learning_rate=5e-05.")
    assert [
        *high_learning_rate_warnings(settings(file, {}, [])),
        *slow_trainings(made("encoder.name=minilm")),
    ] == []
    assert high_learning_rate_warnings(made("encoder.name=transformer")) == []


def test_nothing_is_asked_of_an_initialiser_that_is_left_out():
    assert made("initialiser.method=none").initialiser is None
    with pytest.raises(UsageError, match=r"E001 .*initialiser\.stepz.*this run has no initialiser"):
        made("initialiser.method=none", "initialiser.stepz=50")
