"""The runner of code blocks notices what it is there to notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.errors import TableNotFoundError
from tests.support.code_blocks import PageRun, blocks_of


def run(text: str, folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    reading = PageRun(folder)
    for block in blocks_of(page):
        reading.run(block)


def test_names_and_files_stay_from_block_to_block(tmp_path: Path) -> None:
    run(
        "```python\nx = 1\n```\n```bash\necho hi > f\ncat f\n#> hi\n```\n```python\nprint(x)\n#> 1\n```\n",
        tmp_path,
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nprint(1)\n#> 2\n```\n", AssertionError),
        ("```python\nprint(1)\n# > 2\n```\n", AssertionError),
        ("```python\nprint(1)\nprint(2)\n#> 2\n#> 1\n```\n", AssertionError),
        ("```bash\nfalse | true\n```\n", AssertionError),
        ("```bash\necho a b c\n#> a...d\n```\n", AssertionError),
        ("```sql\nDESCRIBE INDEXTABLES STATE 'nowhere';\n```\n", TableNotFoundError),
        ("```python\nraise ValueError\n```\n", ValueError),
    ],
)
def test_what_does_not_hold_fails(text: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        run(text, tmp_path)
