"""``pretrain tokenizer train SOURCE OUT.json`` and ``pretrain tokenizer show PATH [TEXT]``."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from pretrain.commands.complaints import command_parser, parse

_DESCRIPTION = "Train a tokenizer on a source's train split, or show what one is made of."


def run(argv: list[str]) -> None:
    """Train a tokenizer, or show one.

    Raises UserError for a source, rule or file that can't be used.
    """
    parser = command_parser("tokenizer", _DESCRIPTION)
    commands = parser.add_subcommands()
    commands.add_subcommand("train", _train_parser(), help="train on any source of text")
    commands.add_subcommand("show", _show_parser(), help="vocabulary, special tokens, pieces")
    arguments = parse(parser, argv)
    if arguments.subcommand == "train":
        _train(arguments.train)
    else:
        _show(arguments.show)


def _train_parser() -> ArgumentParser:
    from pretrain.data.document import SourceOptions
    from pretrain.data.tokenizer_training import TokenizerRule

    parser = command_parser("tokenizer train")
    parser.add_argument("source", type=str, help="file, folder, glob, URL, hub name, or builtin")
    parser.add_argument("out", type=str, help="the tokenizer.json to write")
    parser.add_argument(
        "--val_source", type=str | None, help="validation text, so that all of SOURCE is trained on"
    )
    parser.add_class_arguments(TokenizerRule)
    parser.add_class_arguments(SourceOptions)
    return parser


def _show_parser() -> ArgumentParser:
    parser = command_parser("tokenizer show")
    parser.add_argument("path", type=str, help="tokenizer.json, vocab.txt, vocab.json or a folder")
    parser.add_argument("text", type=str, nargs="?", help="a text to show as pieces")
    return parser


def _train(arguments: Namespace) -> None:
    from pretrain.data.source import SourceOptions, TextSource
    from pretrain.data.tokenizer_training import TokenizerRule, TrainTexts, train_tokenizer

    rule = _built(TokenizerRule, arguments)
    source = TextSource(arguments.source, arguments.val_source, _built(SourceOptions, arguments))
    if source.note:
        print(source.note)
    tokenizer = train_tokenizer(TrainTexts(source), rule)
    tokenizer.save(Path(arguments.out))
    for reason, count in source.bad_records.items():
        print(f"skipped {count} records: {reason}")
    print(f"{arguments.out}: {tokenizer.vocab_size} tokens")


def _show(arguments: Namespace) -> None:
    from pretrain.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(arguments.path)
    name = tokenizer.backend.id_to_token
    print(f"{arguments.path}: {type(tokenizer.backend.model).__name__}")
    print(f"vocabulary: {tokenizer.vocab_size}")
    print("special tokens: " + ", ".join(f"{name(i)} = {i}" for i in tokenizer.special_ids))
    if arguments.text is not None:
        ids = tokenizer.encode_prompt(arguments.text)
        print("pieces: " + " ".join(f"{name(i)} ({i})" for i in ids))


def _built(kind: type, arguments: Namespace) -> Any:
    return kind(**{field.name: arguments[field.name] for field in fields(kind)})
