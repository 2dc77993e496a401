"""Weights and tokenizers to and from Hugging Face ``transformers``, which is not imported here.

Reading order: portable, rules, family, bert (as an example of a family), export, importing.
"""

from pretrain.interop.export import export_folder
from pretrain.interop.importing import read_folder
from pretrain.interop.portable import Portable

__all__ = ["Portable", "export_folder", "read_folder"]
