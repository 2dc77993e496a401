import os
import subprocess
import sys

from pretrain.runs.card_reader import process_started


def test_a_living_process_has_a_start_and_a_dead_one_has_none():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert process_started(child.pid) is None
    assert process_started(os.getpid()) == process_started(os.getpid()) is not None


def test_reading_a_card_needs_no_torch():
    code = "import sys, pretrain.runs.card_reader; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
