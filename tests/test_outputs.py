"""What pages show under their code is what the code prints, returns and draws."""

from __future__ import annotations

import ast
import importlib.util
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = """Before.

```python
import matplotlib.pyplot as plt

seen = 6 * 7
print("printed")
seen
```

```
a guess
```

```python
plt.figure()
shown = seen + 1
```
"""


@pytest.fixture(scope="module")
def outputs():
    spec = importlib.util.spec_from_file_location("outputs", DOCS / "outputs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_shows_what_its_code_prints_returns_and_draws(outputs, tmp_path):
    app = SimpleNamespace(config=SimpleNamespace(pages_with_outputs=["a/b"]), srcdir=tmp_path)
    source = [PAGE]
    outputs.show_outputs(app, "a/b", source)
    assert "printed\n42\n```" in source[0]
    assert "a guess" not in source[0]
    assert "(/_outputs/a-b-2-0.png)" in source[0]
    assert (tmp_path / "_outputs" / "a-b-2-0.png").stat().st_size > 0


def test_other_pages_are_left_as_they_are(outputs, tmp_path):
    app = SimpleNamespace(config=SimpleNamespace(pages_with_outputs=[]), srcdir=tmp_path)
    source = [PAGE]
    outputs.show_outputs(app, "a/b", source)
    assert source == [PAGE]


def test_long_lines_are_broken_between_words_and_keep_their_indent(outputs):
    wrapped = outputs.wrap_lines("  " + "word " * 40).splitlines()
    assert len(wrapped) > 1
    assert all(line.startswith("  word") and len(line) <= 88 for line in wrapped)


def test_every_page_with_outputs_is_there():
    settings = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (named,) = (
        ast.literal_eval(node.value)
        for node in settings.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "pages_with_outputs"
    )
    assert named
    assert [page for page in named if not (DOCS / f"{page}.md").is_file()] == []


def test_prose_that_was_wrapped_is_left_to_the_page_to_wrap(outputs):
    words = "the labels seem to follow clusters of near rows, without exceptions " * 3
    said = textwrap.fill(words.strip(), outputs.WIDTH, initial_indent="  ", subsequent_indent="  ")
    text = f"Classifier()\n  fitted on 9 rows\n{said}"
    assert outputs.unwrapped(text) == f"Classifier()\n  fitted on 9 rows\n  {words.strip()}"
    said = textwrap.fill(
        words.strip(), outputs.WIDTH, initial_indent="  - ", subsequent_indent="    "
    )
    text = f"Classifier()\n{said}\n{said}\n  Next."
    point = f"  - {words.strip()}"
    assert outputs.unwrapped(text) == f"Classifier()\n{point}\n{point}\n  Next."
