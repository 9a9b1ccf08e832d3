"""The report page in the browsers of this machine: nothing overlaps, nothing is cut, by day and by
night.

There is a case for each browser that is installed; where there is none, there is nothing to look at
it with.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from indextables.web.report import report_html
from tests.support.pictured import eventful_table

BROWSERS = [
    name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)
]
LOOK = """<script>
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const frame = svg.getBoundingClientRect();
  const labels = [...svg.querySelectorAll("text")].map(t => [t.lastChild.textContent, t.getBoundingClientRect()]);
  labels.forEach(([name, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      found.push("cut: " + name);
    for (const [other, b] of labels.slice(i + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        found.push("overlap: " + name + " | " + other);
  });
}
const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
const answer = {found, wide, page: getComputedStyle(document.body).backgroundColor};
document.body.setAttribute("data-answer", JSON.stringify(answer));
</script>"""


@pytest.mark.parametrize("width", [500, 1000])
@pytest.mark.parametrize("browser", BROWSERS)
def test_no_label_overlaps_another_or_is_cut(browser: str, width: int, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        report_html(eventful_table(tmp_path / "table")).replace("</body>", f"{LOOK}</body>"),
        "utf-8",
    )
    by_day = looked_at(browser, page, width)
    by_night = looked_at(browser, page, width, "--blink-settings=preferredColorScheme=0")
    for answer in (by_day, by_night):
        assert answer["found"] == [] and answer["wide"] is False
    assert by_day["page"] == "rgb(255, 255, 255)" and by_night["page"] == "rgb(20, 24, 29)"


def looked_at(browser: str, page: Path, width: int, *flags: str) -> dict[str, object]:
    """What the page says of itself after it was laid out."""
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent / 'profile'}",
    ]
    done = subprocess.run(
        [*command, *flags, f"--window-size={width},2000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    match = re.search(r'data-answer="([^"]*)"', done.stdout)
    assert match, done.stdout[-500:]
    answer: dict[str, object] = json.loads(unescape(match[1]))
    return answer
