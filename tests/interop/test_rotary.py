from pathlib import Path

import pytest
import torch

from pretrain.errors import UserError
from pretrain.interop.fields import Fields
from pretrain.interop.rotary import read_rotary, write_rotary
from pretrain.model import TransformerConfig
from pretrain.model.positions import RotaryPositions


def read(**values):
    return read_rotary(Fields(values, Path("config.json")))


def test_the_forms_of_both_major_versions_are_read():
    new = read(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0})
    old = read(rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2})
    assert new == old == {"position": "rotary", "rotary_base": 500.0, "rotary_factor": 2.0}
    assert read() == read(rope_scaling=None, rope_theta=10000)
    assert read()["rotary_base"] == 10_000.0


@pytest.mark.parametrize("kind", ["llama3", "yarn", "longrope", "dynamic"])
@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_other_scalings_are_refused_by_name(kind, name):
    with pytest.raises(UserError, match=f"{name}.rope_type is '{kind}'"):
        read(**{name: {"rope_type": kind, "factor": 2.0}})


def test_heads_that_turn_in_part_are_refused():
    with pytest.raises(UserError, match=r"partial_rotary_factor is 0\.5"):
        read(partial_rotary_factor=0.5)
    with pytest.raises(UserError, match=r"partial_rotary_factor is 0\.5"):
        read(rope_parameters={"partial_rotary_factor": 0.5})


@pytest.mark.parametrize("scaling", ["linear", "ntk"])
def test_what_is_written_gives_the_same_angles(scaling):
    config = TransformerConfig(rotary_base=300.0, rotary_scaling=scaling, rotary_factor=4.0)
    back = TransformerConfig(**read(**write_rotary(config)))
    positions = torch.arange(50)
    for here, there in zip(
        RotaryPositions(config)(positions), RotaryPositions(back)(positions), strict=True
    ):
        torch.testing.assert_close(here, there)
