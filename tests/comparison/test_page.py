import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from run_folders import config, curve, finished, write_run

from pretrain.comparison.comparison import compare
from pretrain.comparison.page import comparison_page
from pretrain.comparison.run import load_runs

EVIL = "<img src=x onerror=alert(1)>"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.cdata_elem == "script":  # html.parser's own word for where it is
            self.scripts.append(data)


def _page(*paths):
    return comparison_page(compare(load_runs([str(path) for path in paths])))


@pytest.fixture
def page(tmp_path):
    alert = {"name": EVIL, "step": 3, "where": "", "text": f"</script>{EVIL}"}
    rows = [{**row, f"odd/{EVIL}</script>": 1.0} for row in curve(5.0, 1.0)]
    return _page(
        write_run(tmp_path / EVIL, {"alerts": [alert]}, config(source=EVIL), rows),
        finished(tmp_path / "tame", 3.0, source="</script><script>alert(2)</script>"),
    )


def test_names_from_a_run_are_text_and_never_markup(page):
    elements = Elements(page)
    assert "img" not in [tag for tag, _ in elements.found]
    assert not any(name.startswith("on") for _, attrs in elements.found for name in attrs)
    assert page.count("<script") == 2
    assert "&lt;img src=x onerror" in page


def test_nothing_comes_from_elsewhere_and_only_our_script_may_run(page):
    elements = Elements(page)
    assert not any({"src", "href", "action"} & set(attrs) for _, attrs in elements.found)
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttp|WebSocket", page)
    policy = next(a["content"] for _, a in elements.found if a.get("http-equiv"))
    digest = hashlib.sha256(elements.scripts[-1].encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "default-src 'none'" in policy


def test_the_data_are_json_with_the_names_as_they_are(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert {run["name"] for run in data["runs"]} == {EVIL, "tame"}
    assert any(EVIL in chart["name"] for chart in data["charts"])


def test_verdict_tables_and_alerts_need_no_script(tmp_path):
    alert = {"name": "units_dying", "step": 3, "where": "", "text": "Half of them are dead."}
    worse = write_run(tmp_path / "w", {"alerts": [alert]}, config(lr=0.5), curve(5.0, 1.9))
    page = _page(worse, finished(tmp_path / "b", 1.0))
    assert "<h1>b is best" in page
    assert '<td class="best">1.0000</td>' in page
    assert "model.lr" in page
    assert "w: units dying.</b> Half of them are dead." in page


def test_a_run_without_metrics_and_one_alone_have_a_page(tmp_path):
    bare = write_run(tmp_path / "bare", {"status": "running", "val_loss_nats": None})
    page = _page(bare)
    assert "bare is interrupted" in page  # there is no such process
    assert "its figures are not final" in page
    assert json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["charts"] == []
