from pretrain.runs.samples_file import append, as_table, by_step, cut_back, read


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path):
    file = tmp_path / "samples.jsonl"
    append(file, [{"step": 1, "text": "ä\u2028b\nc"}])
    with file.open("a") as rest:
        rest.write('{"step": 2, "te')
    assert read(file) == [{"step": 1, "text": "ä\u2028b\nc"}]


def test_samples_after_a_checkpoint_are_dropped(tmp_path):
    file = tmp_path / "samples.jsonl"
    cut_back(file, 1)  # nothing there, nothing to do
    append(file, [{"step": step, "text": ""} for step in (0, 50, 100)])
    cut_back(file, 50)
    append(file, [{"step": 75, "text": ""}])
    assert [sample["step"] for sample in read(file)] == [0, 50, 75]


def test_a_table_for_each_step():
    samples = [{"step": s, "prompt": p, "greedy": p + "!"} for s in (0, 5) for p in ("a", "b")]
    tables = {step: as_table(group) for step, group in by_step(samples).items()}
    assert tables[5] == (["prompt", "greedy"], [["a", "a!"], ["b", "b!"]])
    assert list(tables) == [0, 5]
