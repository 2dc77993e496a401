import pytest
import yaml

from pretrain.commands.adoption import refuse_contradictions, write_base_layer
from pretrain.errors import UserError

NETWORK = {"d_model": 32, "position": "learned", "max_len": 64, "dropout": 0.0, "vocab_size": 99}


USES = ("continue", "evaluate", "warm_start")


@pytest.mark.parametrize("use", USES)
def test_the_same_architecture_passes(use):
    assert refuse_contradictions(NETWORK, NETWORK, "a.ckpt", use) is None


@pytest.mark.parametrize(
    ("key", "value", "use"),
    [
        *(("d_model", 64, use) for use in USES),
        *(("vocab_size", 7, use) for use in USES),
        ("max_len", 128, "continue"),
        ("max_len", 128, "evaluate"),
    ],
)
def test_another_architecture_is_refused_with_both_values(key, value, use):
    with pytest.raises(UserError, match=rf"{key} is {value}, but a\.ckpt has {NETWORK[key]}"):
        refuse_contradictions({**NETWORK, key: value}, NETWORK, "a.ckpt", use)


@pytest.mark.parametrize("use", USES)
def test_what_changes_no_weight_may_differ(use):
    refuse_contradictions({**NETWORK, "dropout": 0.1}, NETWORK, "a.ckpt", use)
    rotary = {**NETWORK, "position": "rotary"}
    refuse_contradictions({**rotary, "max_len": 128}, rotary, "a.ckpt", use)


@pytest.mark.parametrize("use", USES)
def test_the_initialisation_may_differ_unless_it_sets_the_size_of_positions(use):
    network = {**NETWORK, "position": "sinusoidal", "init": "zero_output"}
    asked = {**network, "init": "normal"}
    with pytest.raises(UserError, match=r"init is normal, but a\.ckpt has zero_output"):
        refuse_contradictions(asked, network, "a.ckpt", use)
    for fixed in ({"position": "learned"}, {"position_scale": 1.0}):
        refuse_contradictions({**asked, **fixed}, {**network, **fixed}, "a.ckpt", use)


def test_a_warm_start_may_have_another_number_of_learned_positions():
    refuse_contradictions({**NETWORK, "max_len": 128}, NETWORK, "a.ckpt", "warm_start")


def test_another_context_is_told_but_not_in_a_run_that_goes_on():
    rotary = {**NETWORK, "position": "rotary", "rotary_factor": 1.0, "sliding_window": None}
    asked = {**rotary, "rotary_factor": 4.0, "sliding_window": 32}
    for use in ("evaluate", "warm_start"):
        line = refuse_contradictions(asked, rotary, "a.ckpt", use)
        assert line is not None
        assert "rotary_factor 4.0 instead of 1.0, sliding_window 32 instead of None" in line
    with pytest.raises(UserError, match=r"rotary_factor is 4\.0, but a\.ckpt has 1\.0"):
        refuse_contradictions(asked, rotary, "a.ckpt", "continue")


def test_what_an_older_checkpoint_does_not_name_is_the_default():
    with pytest.raises(UserError, match=r"parallel_blocks is True, but a\.ckpt has False"):
        refuse_contradictions({**NETWORK, "parallel_blocks": True}, NETWORK, "a.ckpt", "warm_start")


def layer(checkpoint, model_class, path):
    write_base_layer(checkpoint, model_class, "some.DataModule", path)
    return yaml.safe_load(path.read_text())["model"]["init_args"]


@pytest.mark.parametrize(
    ("objective", "known", "causal", "pooling"),
    [
        ("mlm", {}, False, "mean"),
        ("clm", {}, True, None),
        ("encoder", {"pooler": True}, False, None),
        ("encoder", {"pooler": False}, False, "mean"),
        ("classification", {"causal": True, "pooling": "last"}, True, "last"),
    ],
)
def test_a_classifier_takes_from_a_checkpoint_what_suits_its_weights(
    objective, known, causal, pooling, tmp_path
):
    recipe = {"lr": 0.5, "optimizer": {"matrices": "muon"}}
    checkpoint = {
        "objective": objective,
        "hyper_parameters": {"network": NETWORK, **recipe, **known},
    }
    taken = layer(checkpoint, "pretrain.tasks.Classification", tmp_path / "a.yaml")
    assert taken["causal"] == causal
    assert taken.get("pooling") == pooling
    assert {name: taken[name] for name in recipe} == recipe
    other = layer(checkpoint, "pretrain.tasks.MaskedLM", tmp_path / "b.yaml")
    assert other == {"network": NETWORK}
