import json

import pytest
import torch
from disks import full_disk
from safetensors.torch import save_file

from pretrain.errors import UserError
from pretrain.interop.weights import read_json, read_weights, write_weights


def shards(folder, weight_map):
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_what_is_written_is_read(tmp_path):
    write_weights({"a": torch.arange(3.0)}, tmp_path)
    assert torch.equal(read_weights(tmp_path)["a"], torch.arange(3.0))


def test_shards_are_read_together(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "1.safetensors")
    save_file({"b": torch.ones(2)}, tmp_path / "2.safetensors")
    shards(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    assert read_weights(tmp_path).keys() == {"a", "b"}


def test_a_missing_shard_is_named(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "1.safetensors")
    shards(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    with pytest.raises(UserError, match=r"names 2\.safetensors, but"):
        read_weights(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "1.safetensors")
    save_file({"a": torch.zeros(1), "b": torch.ones(2)}, tmp_path / "2.safetensors")
    shards(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    with pytest.raises(UserError, match=r"2\.safetensors holds a, which another shard"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    "name", ["../1.safetensors", "/etc/passwd", "a/b.safetensors", 5, None, ["1.safetensors"]]
)
def test_shards_lie_in_the_folder(name, tmp_path):
    shards(tmp_path, {"a": name})
    with pytest.raises(UserError, match="names no files beside it"):
        read_weights(tmp_path)


def test_a_pickle_gets_one_sentence(tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickle, which could run code") as error:
        read_weights(tmp_path)
    assert "\n" not in str(error.value)


def test_no_weights_and_broken_ones_are_told_apart(tmp_path):
    with pytest.raises(UserError, match=r"holds no model\.safetensors"):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="can't be read as safetensors"):
        read_weights(tmp_path)


def test_a_full_disk_is_a_failure_to_write(tmp_path):
    with full_disk(), pytest.raises(OSError, match="large"):
        write_weights({"a": torch.ones(10_000)}, tmp_path)


def test_nested_beyond_all_reason_is_no_json(tmp_path):
    (tmp_path / "config.json").write_text('{"a":' * 100_000)
    with pytest.raises(UserError, match="can't be read as JSON"):
        read_json(tmp_path / "config.json")


def test_early_names_of_norms_are_those_of_today(tmp_path):
    names = {"x.LayerNorm.gamma", "x.LayerNorm.beta", "y.gamma"}
    write_weights({name: torch.ones(1) for name in names}, tmp_path)
    assert read_weights(tmp_path).keys() == {"x.LayerNorm.weight", "x.LayerNorm.bias", "y.gamma"}


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_is_no_json_object_is_told(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json .*JSON"):
        read_json(tmp_path / "config.json")
    with pytest.raises(UserError, match=r"holds no other\.json"):
        read_json(tmp_path / "other.json")
