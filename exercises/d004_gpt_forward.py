"""Document 004, Problem 2.9: what the GPT's forward pass returns, and what its words leave open."""

import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, judge, proved, run_script
from exercises.shown import below
from npdl.models.gpt import GPT, attentions, hidden_states

QUESTION = """\
forward() of the GPT returns logits, the hidden states per layer and the attention weights per
layer. Which shapes have they; does the norm stand before or after the residual sum; and which
states are meant?"""

TITLES = {"2.9": "The forward pass of a GPT"}

claim = partial(Claim, "004", "Problem 2.9")
IDS = np.array([[3, 1, 4, 1], [5, 9, 2, 6]])


def model(norm="post", num_layers=3):
    """A small GPT in float64; both kinds of block start from the same weights."""
    return GPT(36, 8, num_layers, 2, norm=norm, dtype="float64")


def states(norm="post", num_layers=3):
    """{which states are meant: an array (B, L, S, D), L the number of blocks}."""
    gpt = model(norm, num_layers)
    x, _ = gpt.positions.forward(gpt.embedding.forward(IDS)[0])
    _, cache = gpt.forward(IDS)
    outputs = hidden_states(cache)
    return {"the blocks' outputs": outputs,
            "the blocks' inputs": np.concatenate([x[:, None], outputs[:, :-1]], 1)}


def readout_gap(norm):
    """Largest difference of the logits and the classifier applied to the last hidden state."""
    gpt = model(norm)
    logits, cache = gpt.forward(IDS)
    y, _ = gpt.classifier.forward(hidden_states(cache)[:, -1])
    return float(abs(y - logits).max())


def claims():
    return [*shape_claims(), norm_claim(), states_claim()]


def shape_claims(B=2, S=6, V=36, d=8, L=3, H=2):
    ids = np.zeros((B, S), int)
    logits, cache = GPT(V, d, L, H).forward(ids)
    rows = [("logits", "The GPT returns logits (B, S, V).", "logits", logits, (B, S, V)),
            ("hidden states", "hidden_states is (B, num_layers, S, embedding_size).",
             "(B, num_layers, S, embedding_size)", hidden_states(cache), (B, L, S, d)),
            ("attentions", "attentions is (B, num_layers, num_heads, S, S).",
             "(B, num_layers, num_heads, S, S)", attentions(cache), (B, L, H, S, S))]
    return [claim(part, text, said, f"{array.shape}", proved(array.shape == shape),
                f"npdl's GPT with B = {B}, S = {S}, V = {V}, width {d}, {L} layers, {H} heads")
            for part, text, said, array, shape in rows]


def norm_claim():
    post, pre = (model(norm) for norm in ("post", "pre"))
    gap = float(abs(post.forward(IDS)[0] - pre.forward(IDS)[0]).max())
    more = pre.count_params() - post.count_params()
    return claim(
        "norm", "A block is attention and feed-forward net with skip-connections and LayerNorm.",
        "the parts named, their order left to a figure",
        "two blocks fit: LayerNorm after each sum (post, npdl's default) or before each branch "
        "(pre, with one more at the end)",
        judge(gap < 1e-9, if_false="under-specified"),
        f"same weights: logits differ by up to {gap:.2f}; pre-norm learns {more} numbers more; "
        "holds with the figure that the text points to")


def states_claim():
    found = states()
    outputs, inputs = found.values()
    apart = float(abs(outputs - inputs).max())
    gaps = {norm: readout_gap(norm) for norm in ("post", "pre")}
    return claim(
        "which states", "hidden_states holds the hidden states per layer, num_layers of them.",
        "hidden states per layer",
        "the blocks' outputs, as npdl has it; the blocks' inputs, the embedding first, are as many",
        judge(apart < 1e-9, if_false="under-specified"),
        f"both {outputs.shape}, different by up to {apart:.2f}; classifier of the last output: "
        f"the logits with post-norm ({below(gaps['post'])}), off by {gaps['pre']:.2f} with "
        "pre-norm, whose last norm comes between")


if __name__ == "__main__":
    sys.exit(run_script(globals()))
