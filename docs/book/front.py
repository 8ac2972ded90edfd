"""What the first page shows, live and without a server: a backward, a mistake, grokking."""

import json
from html import escape
from pathlib import Path

from docs.book.markup import coloured, raw, words
from docs.book.mistakes import blamed, changed, edited_code
from npdl.layers.recurrent import LSTMCell

GROKKING = Path(__file__).parent / "data" / "grokking.json"
# Of the LSTM cell's backward: what stands there -> a mistake.
MISTAKES = (
    ("dc = dc + dh * o * (1 - tanh_c**2)", "dc = dc + dh * o"),
    ("df = dc * c_prev", "df = dc * c_prev * f"),
    ("dz_i = di * i * (1 - i)", "dz_i = di * i * (1 + i)"),
    ("dx = dz @ self.W_x.data.T", "dx = dz @ self.W_h.data.T"),
    ("self.b.grad += sum_rows(dz)", "self.b.grad += dz.mean(0)"),
    ("dc_prev = dc * f", "dc_prev = dc * i"),
)


def step():
    """Return an LSTM cell's step page, in a frame."""
    return raw('<iframe class="step front" title="An LSTM cell, line by line" loading="lazy" '
               'src="steps/LSTMCell.html"></iframe>')


def mistakes():
    """Return each of MISTAKES, folded, with the report that blame gives now."""
    made = []
    for was, now in MISTAKES:
        function, statement = changed(LSTMCell, was)
        report = blamed(LSTMCell, function, edited_code(function, statement, now))
        if report.right or report.line != statement.first:
            raise ValueError(f"blame does not name {now!r}, which the first page says")
        made.append(
            f'<details name="mistake"{" open" * (not made)}><summary><code>{escape(now)}</code> '
            f'for <code>{escape(was)}</code></summary>\n<div class="mistake"><pre>'
            f'{coloured(str(report), "text")}</pre></div></details>')
    return raw("\n".join(made))


def grokking():
    """Return the recorded run with a slider, or with a picture where scripts are disabled."""
    found = json.loads(GROKKING.read_text(encoding="utf-8"))
    says = words("Loss, right answers, and the numbers' embeddings at step")
    return raw(f'''<figure class="grokking" id="grokking">
<noscript><img src="_static/grokking.webp" alt="Loss, right answers and embeddings as they move"
></noscript><div class="moving" hidden>
<p><label>{says} <output></output><br><input type="range" min="0" max="{len(found["at"]) - 1}"
value="0" aria-label="step of training"></label> <button type="button">play</button></p>
<svg viewBox="0 0 720 250" role="img" aria-label="Loss and right answers over the steps, and where
the embeddings of the numbers lie"></svg></div>
<script type="application/json">{json.dumps(found, separators=(",", ":"))}</script>
<script src="_static/grokking.js"></script></figure>''')


PARTS = {"<!-- step -->": step, "<!-- mistakes -->": mistakes, "<!-- grokking -->": grokking}


def filled(text):
    """Replace the marks in a page by the parts that they name."""
    for mark, part in PARTS.items():
        if mark in text:
            text = text.replace(mark, part())
    return text
