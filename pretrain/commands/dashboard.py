"""``pretrain dashboard``: all runs of a folder in the browser, with Trackio, on this machine."""

import io
import os
import sqlite3
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

_ORDER = "val/loss,val/*,train/loss,final/*,train/*,grad/norm,lr,speed/*,attention/*,ffn/*"


def run(argv: list[str]) -> None:
    """Show the runs until Ctrl-C."""
    parser = command_parser("dashboard", "Show all runs of a folder in the browser, with Trackio.")
    parser.add_argument("folder", type=str, nargs="?", default="runs", help="the runs folder")
    parser.add_argument(
        "--port", type=int, default=None, help="of this machine; by default a free one from 7860"
    )
    options = parse(parser, argv)
    folder = Path(options.folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: give the one that holds your runs.")
    from pretrain.runs.trackio_import import bring_in  # here, so that --help need not wait
    from pretrain.runs.trackio_logger import has_trackio

    if not has_trackio():
        raise UserError('The dashboard needs Trackio: pip install "pretrain[dashboard]".')
    try:
        runs = bring_in(folder)
    except (sqlite3.Error, OSError) as error:
        raise UserError(f"The runs in {folder} can't be shown: {error}") from error
    if not runs:
        raise UserError(f"There is no run in {folder}: train one with pretrain fit.")
    app, address = open_dashboard(folder, options.port)
    print(f"{len(runs)} runs of {folder}: {address}   (Ctrl-C ends it)", flush=True)
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
    app.close()


def open_dashboard(folder: Path, port: int | None) -> tuple[Any, str]:
    """Start Trackio's server for this machine alone; returns it, with ``close``, and its address.

    Raises:
        UserError: The port is taken.
    """
    from pretrain.runs.trackio_database import FOLDER, PROJECT

    os.environ["TRACKIO_DIR"] = str((folder / FOLDER).absolute())  # read when Trackio is imported
    os.environ.setdefault("TRACKIO_PLOT_ORDER", _ORDER)
    os.environ.setdefault("TRACKIO_TABLE_TRUNCATE_LENGTH", "1000")  # samples in full
    import trackio

    try:
        with redirect_stdout(io.StringIO()):  # which says how to write to it
            app, address, *_ = trackio.show(
                PROJECT, open_browser=False, block_thread=False, share=False, server_port=port
            )
    except OSError as error:
        raise UserError(f"Port {port or 7860} is taken: give another --port.") from error
    return app, f"{address}metrics?project={PROJECT}&smoothing=0"
