import pytest
import torch
from tiny import ROWS, make_task

from pretrain.diagnostics.anomaly import inspect

LENGTHS = [9, 5]


def _poison(task, name, value=float("nan")):
    """Make one submodule give ``value`` in one place; returns what ends that."""

    def hook(part, inputs, output):
        output = output.clone()
        output.view(-1)[3] = value
        return output

    return task.get_submodule(name).register_forward_hook(hook)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "name",
    [
        "transformer.embeddings.token",
        "transformer.blocks.0.attention.core",
        "transformer.blocks.1.feed_forward.down",
        "transformer.final_norm",
    ],
)
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_the_part_where_it_begins_is_named(kind, name, value):
    task = make_task(kind)
    _poison(task, name, value)
    report = inspect(task, [ROWS[kind](LENGTHS)])
    assert report.first_bad == name
    assert report.describe().startswith(f"The first output that is not finite is that of {name};")


def test_it_is_found_in_a_later_batch_of_the_window_too():
    task, batch = make_task("clm"), ROWS["clm"](LENGTHS)
    calls = []

    def hook(part, inputs, output):
        calls.append(None)
        return output / (0.0 if len(calls) == 3 else 1.0)

    task.transformer.blocks[1].attention.register_forward_hook(hook)
    assert inspect(task, [batch] * 2).first_bad is None
    assert inspect(task, [batch] * 2).first_bad == "transformer.blocks.1.attention"


def test_a_bad_weight_of_the_head_is_the_loss():
    """The causal loss takes the head's matrix without running the head."""
    task = make_task("clm")
    task.head.decoder.weight.data[1, 2] = torch.nan
    assert inspect(task, [ROWS["clm"](LENGTHS)]).first_bad in ("loss", "head.decoder")


def test_a_healthy_network_has_no_bad_part():
    report = inspect(make_task("mlm"), [ROWS["mlm"](LENGTHS)])
    assert report.first_bad is None
    assert report.describe().startswith("Every output of the forward pass is finite")
    assert "\n" not in report.describe()


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("clm", {}),
        ("clm", {"position": "alibi", "qk_norm": False}),
        ("mlm", {"sliding_window": 3}),
        ("mlm", {"n_kv_heads": 1}),
    ],
)
def test_the_largest_logit_is_that_of_the_whole_matrix(kind, network):
    task = make_task(kind, network=network)
    with torch.no_grad():
        for block in task.transformer.blocks:
            block.attention.qkv.weight.mul_(30.0)
    batch = ROWS[kind](LENGTHS)
    seen = {}
    for layer, block in enumerate(task.transformer.blocks):
        block.attention.core.register_forward_pre_hook(
            lambda core, inputs, layer=layer: seen.update({layer: inputs})
        )
    report = inspect(task, [batch])
    largest = {}
    for layer, (query, key, _, mask) in seen.items():
        scores = query.detach() @ key.detach().mT / query.shape[-1] ** 0.5
        bias = mask.bias(0, mask.n_queries)
        scores = scores if bias is None else scores + bias
        real = batch["labels"] != -100 if kind == "clm" else batch["attention_mask"]
        counts = mask.rows(0, mask.n_queries) & real[:, None, :, None]
        largest[layer] = scores.abs()[counts.expand_as(scores)].max().item()
    layer = max(largest, key=largest.get)
    assert report.largest_logit.value == pytest.approx(largest[layer], rel=1e-5)
    assert report.largest_logit.layer == f"transformer.blocks.{layer}.attention.core"


def test_an_overflow_of_the_scores_is_infinite():
    """Said even where the attention kernel gives finite numbers for rows of NaN."""
    task = make_task("clm", network={"qk_norm": False})
    with torch.no_grad():
        task.transformer.blocks[1].attention.qkv.weight.mul_(1e25)
    report = inspect(task, [ROWS["clm"](LENGTHS)])
    assert report.largest_logit == (float("inf"), "transformer.blocks.1.attention.core")


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
def test_the_smallest_norm_input_is_found_in_its_own_measure(norm):
    """A constant vector has no spread about its mean, but a root mean square."""
    task = make_task("clm", network={"norm": norm, "embedding_norm": False, "position": "none"})
    batch = ROWS["clm"](LENGTHS)
    weights = task.transformer.embeddings.token.weight.data
    weights[batch["input_ids"][0, 0]] = 3e-4
    value, layer = inspect(task, [batch]).smallest_norm_input
    assert value == pytest.approx(3e-4 if norm == "rmsnorm" else 0.0, abs=1e-9)
    assert layer == "transformer.blocks.0.attention_norm"


def test_padding_is_left_out():
    task = make_task("clm", network={"embedding_norm": False, "position": "none"})
    batch = ROWS["clm"](LENGTHS)
    filler = batch["labels"] == -100
    batch["input_ids"][filler] = 0
    task.transformer.embeddings.token.weight.data[0] = 0.0
    assert inspect(task, [batch]).smallest_norm_input.value > 1e-3


def test_modes_weights_gradients_and_hooks_are_as_they_were():
    task, batch = make_task("clm", network={"dropout": 0.5}).train(), ROWS["clm"](LENGTHS)
    task.transformer.blocks[0].eval()
    modes = [part.training for part in task.modules()]
    task.losses(batch).objective.backward()
    before = [(p.detach().clone(), p.grad.clone()) for p in task.parameters()]
    torch.manual_seed(3)
    dropped = task.losses(batch).objective
    seen = []
    task.transformer.register_forward_hook(lambda part, inputs, output: seen.append(output))
    torch.manual_seed(3)
    inspect(task, [batch])
    torch.manual_seed(3)
    assert torch.equal(task.losses(batch).objective, dropped)
    assert torch.equal(seen[0], seen[1])  # the replay dropped what training drops
    assert modes == [part.training for part in task.modules()]
    for (weight, gradient), parameter in zip(before, task.parameters(), strict=True):
        assert torch.equal(weight, parameter)
        assert torch.equal(gradient, parameter.grad)
    hooks = [part for part in task.modules() if part._forward_hooks or part._forward_pre_hooks]
    assert hooks == [task.transformer]


def test_a_compiled_network_is_seen():
    task = make_task("clm")
    task.transformer.compile(backend="eager")
    task.losses(ROWS["clm"](LENGTHS))
    task.transformer.blocks[0].attention.qkv.weight.data[0, 0] = torch.nan
    report = inspect(task, [ROWS["clm"](LENGTHS)])
    assert report.first_bad == "transformer.blocks.0.attention.qkv"
