"""What a run leaves behind and shows while it goes: folder, card, metrics, checkpoints."""
