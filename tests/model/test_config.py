import pytest

from pretrain.model import TransformerConfig


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"d_model": 10, "n_heads": 4}, ["10", "4", "divisible"]),
        ({"d_model": 6, "n_heads": 2, "position": "rotary"}, ["3", "even"]),
        ({"dropout": 1.0}, ["dropout", "1.0"]),
        ({"attention_dropout": -0.1}, ["attention_dropout", "-0.1"]),
        ({"n_layers": 0}, ["n_layers", "0"]),
        ({"vocab_size": 0}, ["vocab_size", "0"]),
        ({"norm": "rmsnorm", "norm_gain": True, "norm_bias": True}, ["RMSNorm", "bias"]),
        ({"norm": "layernorm", "norm_bias": True}, ["norm_bias", "norm_gain"]),
        ({"tie_embeddings": True, "init": "zero_output"}, ["tie_embeddings", "zero_output"]),
        ({"norm_eps": 0.0}, ["norm_eps"]),
        ({"n_segments": -1}, ["n_segments", "-1"]),
        ({"norm_eps": float("nan")}, ["norm_eps", "nan"]),
        ({"rotary_base": float("inf")}, ["rotary_base", "inf"]),
        ({"position": "rotray"}, ["position", "rotray", "rotary"]),
        ({"init": "glorot"}, ["init", "glorot", "xavier"]),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_in_one_sentence(wrong, words):
    with pytest.raises(ValueError, match=r"\.$") as error:
        TransformerConfig(**wrong)
    for word in words:
        assert word in str(error.value)


def test_an_odd_head_size_is_fine_without_rotary_positions():
    assert TransformerConfig(d_model=6, n_heads=2, position="learned").head_dim == 3
