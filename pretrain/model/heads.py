"""What stands on top of the block stack."""

from torch import Tensor, nn

from pretrain.model.config import TransformerConfig
from pretrain.model.feed_forward import build_activation
from pretrain.model.norms import build_norm


class LanguageModelHead(nn.Module):
    """The output matrix, for BERT behind dense + activation + norm (Devlin et al. 2019).

    Serves both objectives: masked language models feed it the masked positions only, causal ones
    every position. ``transform`` and ``decoder`` stand apart so that a loss which never holds all
    logits can use ``decoder.weight`` directly.
    """

    def __init__(self, config: TransformerConfig, token_embedding: nn.Embedding) -> None:
        super().__init__()
        d_model, vocab_size = token_embedding.embedding_dim, token_embedding.num_embeddings
        self.transform: nn.Module = nn.Identity()
        if config.head_transform:
            self.transform = nn.Sequential(
                nn.Linear(d_model, d_model), build_activation(config.activation), build_norm(config)
            )
        self.decoder = nn.Linear(d_model, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.decoder.weight = token_embedding.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits ``(..., vocab_size)`` from hidden states ``(..., d_model)``."""
        return self.decoder(self.transform(hidden))


class Pooler(nn.Module):
    """tanh(dense(first token)): what stands for the whole sequence (Devlin et al. 2019)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        """``(batch, seq, d_model)`` to ``(batch, d_model)``."""
        return self.dense(hidden[:, 0]).tanh()
