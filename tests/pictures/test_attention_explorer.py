import base64
import json
import re

import torch

from pretrain.pictures.attention_explorer import attention_explorer, tokens_that_fit


def shown_data(page):
    text = re.search(r'<script type="application/json" id="attention">(.*?)</script>', page)[1]
    data = json.loads(text)
    n = len(data["tokens"])
    raw = torch.frombuffer(bytearray(base64.b64decode(data["weights"])), dtype=torch.uint8)
    return data, (raw / 255).square().view(data["layers"], data["heads"], n, n)


def test_the_page_holds_every_weight_and_begins_with_the_sharpest_head():
    weights = torch.randn(2, 3, 4, 4, generator=torch.manual_seed(0)).softmax(-1)
    entropy = torch.tensor([[0.5, 0.2, 0.9], [float("nan"), 0.3, 0.4]])
    tokens = ["a", "</script><b>", '"', "␣"]
    page = attention_explorer(tokens, weights, entropy, query=2)
    data, shown = shown_data(page)
    assert data["tokens"] == tokens
    assert data["start"] == [0, 1, 2]
    # A root to within 1 / 510 is a weight to within twice that.
    torch.testing.assert_close(shown, weights, atol=2 / 510 + 1e-5, rtol=0)
    assert page.count("</script>") == 2  # the token's own is escaped
    assert "&lt;/script&gt;&lt;b&gt;" in page


def test_large_networks_show_fewer_tokens():
    assert tokens_that_fit(4, 4, 64) == 64
    n = tokens_that_fit(48, 25, 64)
    assert 16 < n < 64
    assert 48 * 25 * n**2 <= 1_000_000
