"""Pictures as SVG and HTML from plain numbers and words: no browser, server or library needed."""

from pretrain.pictures.bars import Bars
from pretrain.pictures.curves import Curves
from pretrain.pictures.film import Film
from pretrain.pictures.heatmap import HeatMap
from pretrain.pictures.token_text import is_byte_level, piece_text, readable

__all__ = ["Bars", "Curves", "Film", "HeatMap", "is_byte_level", "piece_text", "readable"]
