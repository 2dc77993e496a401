"""The commands behind ``pretrain``, one module each, loaded when they are used."""
