"""``python -m pretrain``: the same as the command ``pretrain``."""

from pretrain.cli import main

if __name__ == "__main__":
    main()
