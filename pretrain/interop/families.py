"""The architectures of ``transformers`` that weights can be exchanged with."""

from pretrain.interop import bert, eurobert, gpt2, llama, nanochat

# The first of two that are equally near is the one that a refusal names.
FAMILIES = (bert.FAMILY, gpt2.FAMILY, eurobert.FAMILY, llama.FAMILY, nanochat.FAMILY)
