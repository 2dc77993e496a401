"""What both language models share: a head over the vocabulary, its loss and its evaluation."""

from abc import abstractmethod

from torch import Tensor

from pretrain.model import LanguageModelHead, TransformerConfig, initialize
from pretrain.tasks.base import Batch, TransformerTask
from pretrain.tasks.losses import LossSums, ScoreSums, evaluate_targets, training_loss
from pretrain.tasks.metrics import LanguageModelingScore
from pretrain.tasks.optimizer import OptimizerConfig
from pretrain.tasks.schedule import ScheduleConfig


class LanguageModel(TransformerTask):
    """Base of ``MaskedLM`` and ``CausalLM``: one block stack and one head over the vocabulary.

    Args:
        network, lr, optimizer, schedule, compile, activation_checkpointing: See
            ``TransformerTask``.
        label_smoothing: Mass given to the uniform distribution in the training objective;
            reported losses are plain likelihoods all the same.

    Raises:
        ValueError: One sentence, for a configuration that cannot work.
    """

    def __init__(
        self,
        network: TransformerConfig = TransformerConfig(),  # noqa: B008  frozen
        lr: float = 0.02,
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008
        schedule: ScheduleConfig = ScheduleConfig(),  # noqa: B008
        label_smoothing: float = 0.0,
        compile: bool = False,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__(network, lr, optimizer, schedule, compile, activation_checkpointing)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing is {label_smoothing}; it must be in [0, 1).")
        self.label_smoothing = label_smoothing
        self.head: LanguageModelHead = None  # type: ignore[assignment]  # see build_heads
        self.score = LanguageModelingScore()
        self.save_hyperparameters({"label_smoothing": label_smoothing})

    def build_heads(self) -> None:
        """The head over the vocabulary; tied to the embedding where the configuration says so."""
        self.head = LanguageModelHead(self.config, self.transformer.embeddings.token)
        initialize(self.transformer, self.head)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits ``(batch, seq, vocab_size)``, for use and inspection."""
        return self.head(self.transformer(input_ids, attention_mask))

    @abstractmethod
    def target_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states ``(n, d_model)`` that predict something, and their labels ``(n,)``."""

    def losses(self, batch: Batch) -> LossSums:
        """Sums over the target tokens of ``batch``."""
        hidden, labels = self.target_states(batch)
        hidden = self.head.transform(hidden)
        return training_loss(hidden, self.head.decoder, labels, self.label_smoothing)

    def scores(self, batch: Batch) -> ScoreSums:
        """The same in evaluation: float32 likelihood and number of hits."""
        hidden, labels = self.target_states(batch)
        hidden = self.head.transform(hidden)
        # Only masked language models report accuracy, and finding the maximum is not free.
        return evaluate_targets(hidden, self.head.decoder, labels, count_hits=not self.causal)

    # Evaluation --------------------------------------------------------------------------------

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add one micro-batch to the sums of the split."""
        self.score.update(self.scores(batch), batch.get("n_bytes", 0.0))

    test_step = validation_step

    def predict_step(self, batch: Batch, batch_idx: int) -> list[ScoreSums]:
        """The figures of each row by itself, in the order of the rows."""
        hidden, labels = self.target_states(batch)
        hidden = self.head.transform(hidden)
        n_rows = len(batch["input_ids"])  # targets stand row by row
        rows = zip(hidden.chunk(n_rows), labels.chunk(n_rows), strict=True)
        return [evaluate_targets(states, self.head.decoder, targets) for states, targets in rows]

    def on_validation_epoch_end(self) -> None:
        """Report the split's figures, as ``val/...``."""
        self._report("val")

    def on_test_epoch_end(self) -> None:
        """Report the split's figures, as ``test/...``."""
        self._report("test")

    def _report(self, split: str) -> None:
        figures = {f"{split}/{name}": value for name, value in self._figures().items()}
        self.score.reset()
        # Lightning takes "step" for the x axis: the number of optimizer steps taken.
        self.log_dict({**figures, "step": float(self.trainer.global_step)})

    def _figures(self) -> dict[str, float]:
        figures = self.score.compute()
        accuracy = figures.pop("accuracy", None)
        if not self.causal:
            figures.pop("bits_per_byte", None)  # the masked tokens alone are no code for the text
            if accuracy is not None:
                figures["masked_accuracy"] = accuracy
        return figures

    # Cost --------------------------------------------------------------------------------------

    def target_share(self) -> float:
        """Share of the input tokens that enter the loss."""
        return 1.0

    def head_flops_per_token(self) -> float:
        """6 per weight, on the tokens that enter the loss."""
        head = sum(p.numel() for p in self.head.parameters() if p.ndim == 2)
        return 6 * head * self.target_share()
