"""A correct chapter, and mistakes that must stop its build."""

import pytest

pytest.importorskip("docutils")

from docs.book.chapter import BookError, read_chapter
from docs.book.render import Page

WHOLE = """# 1. A map

Why?

## What it does

```{picture} thermometer_line
It ends at {slopes[-1]::.1f}.
```
```{sum}
y = 2 \\cdot 3 = 6
z = \\sqrt{2} \\approx 1.41
---
y, z = np.array(6.0), np.sqrt(2)
holds()
```
```{ask}
How far is it from {steps[0]} to {steps[-1]}?
> steps[-1] - steps[0]
: {answer::.0f} steps.
```

## Diagram and shapes

```{graph} Linear
```

## Forward

```{source} npdl.layers.linear:Linear.forward
```

```{equation} map-1
y = x W
---
x, W = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
holds(y=x @ W)
```

Row by row $y_n = x_n W$.

```{said}
holds("y_n", y=x @ W)
```

## Backward, line by line

```{source} npdl.layers.linear:Linear.backward
dy_rows = dy.reshape(-1, E)   <- map-1
self.W.grad += rows.T @ dy_rows <- map-1
self.b.grad += sum_rows(dy_rows) <- map-1
dx = dy_rows @ self.W.data.T <- map-1
return dx.reshape(cache.shape) <- map-1
```

## Gradient check

```{proof} Linear
```

## What goes wrong here

```{mistakes} npdl.layers.linear:Linear
dx = dy_rows @ self.W.data.T -> dx = -dy_rows @ self.W.data.T
: A sign.
self.W.grad += rows.T @ dy_rows -> self.W.grad += rows @ dy_rows
: This raises an exception.
```

## Exercises

```{questions} 001.3.1
```

## Write it yourself
"""


def build_page(path):
    """Make the page of a chapter, as a build does."""
    read_chapter.cache_clear()
    chapter = read_chapter(path)
    page = Page(chapter)
    return page, page.format_page()


def test_a_chapter_in_good_form(tmp_path):
    path = tmp_path / "01-map.md"
    path.write_text(WHOLE)
    page, text = build_page(path)
    assert page.chapter.layer_names == ["Linear"] and "<b>001.3.1</b>" in text
    assert "wrong sign" in text and "fix        self.W.grad += rows.T @ dy_rows" in text


@pytest.mark.parametrize("old, new, said", [
    ("y = x W", "y = -x W", ":37: check map-1 fails"),
    ("y_n = x_n W", "y_n = -x_n W", ":43: check said-1 fails"),
    ("y_n = x_n W", r"y_n \\text{ is } x_n W = b", "equation y_n"),
    ('holds("y_n"', 'holds("x_n"', "0 formulas of the text above begin with 'x_n'"),
    ('holds("y_n", y=x @ W)', "x", "does not evaluate statement 1 of its equation"),
    ("Gradient check\n", "Gradient check\n\nOf $x \\le y$.\n",
     r":58: $x \le y$ has a relation and no check"),
    ("y = x W", "y \\text{ is } x W", "equation map-1: no relation"),
    ("y=x @ W", "x=0 * x, y=0 * x @ W", "cannot fail"),
    ("y = x W", r"y \le x W", "no strict case of inequality 1.1"),
    ("y = x W", r"y_n = \sum_n x_n W", "is used outside of the sum"),
    ("dx = dy_rows @ self.W.data.T <-", "dx = dy_rows @ self.W.data <-", "is not a line of Linear"),
    ("dx = dy_rows @ self.W.data.T <- map-1\n", "", "cites no equation"),
    ("{graph} Linear", "{graph} Linen", "'Linen' is not a layer of npdl"),
    ("dx = dy_rows @ self.W.data.T ->", "dx = dy_rows ->", "is not a statement of"),
    ("-> dx = -dy_rows @ self.W.data.T", "-> dx = dy_rows @ self.W.data.T + 0", "nothing wrong"),
    (": A sign.", ": A sign.\n> Linear(2, 3).W.shape", "is (2, 3) with 'dx = -dy_rows"),
    (": A sign.", ": A sign.\n! Another.", "itself: remove the ! line"),
    ("thermometer_line", "thermo", "picture 'thermo' is unknown; choose one of: "),
    ("2 \\cdot 3 = 6", "2 \\cdot 3 = 7", ":15: check of the sum fails"),
    ("approx 1.41", "approx 1.42", "1.414214 is not 1.42, rounded"),
    ("---\n", "--\n", "write TeX, a line ---"),
    ("> steps[-1]", "steps[-1]", "an {ask} needs a question"),
    ("```{questions} 001.3.1\n```", "```{question} 001.3.1\n```", "'question' is unknown"),
    ("```{questions} 001.3.1\n```", "```{questions} 001.3.1", "never closed"),
])
def test_an_error_in_a_chapter_ends_the_build(old, new, said, tmp_path):
    path = tmp_path / "01-map.md"
    assert old in WHOLE
    path.write_text(WHOLE.replace(old, new))
    with pytest.raises(BookError, match=r"^01-map\.md:\d+: ") as found:
        build_page(path)
    assert said in str(found.value)
