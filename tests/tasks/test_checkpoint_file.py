import pytest
import torch
from tiny import make_task

from pretrain.errors import UserError
from pretrain.tasks import CausalLM
from pretrain.tasks.checkpoint_file import load_plain, read_checkpoint
from pretrain.tasks.loading import save_task

NAME = "transformer.embeddings.token.weight"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "tiny.ckpt"
    save_task(make_task("clm"), path)
    return path


@pytest.mark.parametrize("mmap", [True, False])
def test_a_flipped_bit_is_noticed_which_torch_does_not(saved, mmap):
    content = bytearray(saved.read_bytes())
    weight = torch.load(saved, weights_only=True)["state_dict"][NAME]
    place = content.index(weight[0].numpy().tobytes())
    content[place] ^= 1
    saved.write_bytes(content)
    damaged = torch.load(saved, weights_only=True)["state_dict"][NAME]
    assert not torch.equal(damaged, weight)
    with pytest.raises(UserError, match=r"tiny\.ckpt .*damaged \(the checksum of .* is wrong"):
        load_plain(saved, mmap=mmap)


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_file_that_is_cut_off_is_named(saved, share):
    saved.write_bytes(saved.read_bytes()[: int(saved.stat().st_size * share)])
    with pytest.raises(UserError, match=r"tiny\.ckpt .*cut off or damaged"):
        load_plain(saved)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no checkpoint at .*none\.ckpt"):
        load_plain(tmp_path / "none.ckpt")


@pytest.mark.parametrize(
    ("part", "value"),
    [("hyper_parameters", None), ("hyper_parameters", {}), ("state_dict", [1]), ("tokenizer", 3),
     ("global_step", "2"), ("objective", ["clm"]), ("trained_len", "a"),
     ("state_dict", {NAME: True})],
)  # fmt: skip
def test_a_part_of_another_type_is_named(saved, part, value):
    torch.save({**torch.load(saved, weights_only=True), part: value}, saved)
    with pytest.raises(UserError, match=rf"tiny\.ckpt is no checkpoint of pretrain: {part}"):
        read_checkpoint(saved)


def test_weights_that_are_not_those_of_its_network_are_a_mistake_of_one_line(saved):
    content = torch.load(saved, weights_only=True)
    content["state_dict"][NAME] = torch.zeros(3)
    torch.save(content, saved)
    with pytest.raises(UserError, match=r"tiny\.ckpt holds no CausalLM") as error:
        CausalLM.load_from_checkpoint(saved)
    assert "\n" not in str(error.value)


def test_a_network_that_cannot_be_is_a_mistake_of_one_line(saved):
    content = torch.load(saved, weights_only=True)
    content["hyper_parameters"]["network"]["n_heads"] = 3
    torch.save(content, saved)
    with pytest.raises(UserError, match=r"tiny\.ckpt holds a network that can't be: .*n_heads"):
        read_checkpoint(saved)
