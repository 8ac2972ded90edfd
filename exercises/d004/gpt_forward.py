"""Document 004, Problem 2.9: what the GPT's forward pass returns, and what its words leave open."""

from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, vec
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


def claims():
    return [*shape_claims(), norm_claim()]


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
        f"an example, weights of seed 0 in both: logits differ by up to {gap:.2f}; pre-norm learns "
        f"{more} numbers more; holds with the figure that the text points to")


D = 4


def shapes_of(B, S, V, heads, blocks):
    """The shapes of what a GPT of width D returns."""
    return {"logits": (B, S, V), "hidden_states": (B, blocks, S, D),
            "attentions": (B, blocks, heads, S, S)}


def norms(x, branch):
    """(post, pre): the normalised sum, and the sum that is handed on as it is."""
    pre = x + branch
    return (pre - pre.mean()) / pre.std(), pre


def forward(B=2, S=3, V=5, heads=2, blocks=2):
    """2.9."""
    x, branch = np.array([1.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0])
    post, pre = norms(x, branch)
    logits, cache = GPT(V, D, blocks, heads, dtype="float64").forward(np.zeros((B, S), int))
    hidden = hidden_states(cache)
    shapes = shapes_of(B, S, V, heads, blocks)
    flow = (("ids", "", (B, S)), ("x", "E[ids] + PE", (B, S, D)),
            ("h₁, A₁", "block 1 (x)", ((B, S, D), (B, heads, S, S))),
            ("h₂, A₂", "block 2 (h₁)", ((B, S, D), (B, heads, S, S))),
            ("logits", "classifier(h₂)", (B, S, V)),
            ("hidden_states", "h₁, h₂ stacked on axis 1", shapes["hidden_states"]),
            ("attentions", "A₁, A₂ stacked on axis 1", shapes["attentions"]))
    work = Solution("2.9", f"B = {B} sequences of S = {S} tokens, V = {V}, d = {D}, L = {blocks} "
                    f"blocks of {heads} heads; A₁, A₂ are the weights of attention.")
    work.step("Follow the shapes. Each block hands on its output and its weights; keep both.",
              table=Table(("name", "made by", "shape"), tuple((a, b, str(c)) for a, b, c in flow)))
    work.step("L blocks give L hidden states: the outputs of the blocks. The embedding's sum is "
              "not one of them; with it there would be L + 1.",
              numbers=f"L = {blocks}: {shapes['hidden_states']}")
    work.step("Where a LayerNorm stands decides what such an output is. After the sum (post) "
              "every row has mean 0 and deviation 1; before the branch (pre) the sum is handed on "
              "as it is, and one more norm is needed before the classifier.",
              "post: y = LN(x + f(x))      pre: y = x + f(LN(x))",
              f"the same branch f = {vec(branch, 0)} added to x = {vec(x, 0)}:\npost {vec(post)}, "
              f"pre {vec(pre, 0)}")
    work.step("Return the logits as they are: the loss takes the log-softmax.")
    work.answer = (f"logits {shapes['logits']}, hidden_states {shapes['hidden_states']}, "
                   f"attentions {shapes['attentions']} for B = {B}, S = {S}, V = {V}, L = "
                   f"{blocks}, {heads} heads, d = {D}.")
    work.check("npdl's GPT gives these shapes",
               [a.shape for a in (logits, hidden, attentions(cache))] == list(shapes.values()))
    work.check("its hidden states, post-norm, have mean 0 and mean square 1 in every row",
               np.allclose(hidden.mean(-1), 0, atol=1e-6)
               and np.allclose((hidden**2).mean(-1), 1, atol=1e-2))
    return work


def solutions():
    return [forward()]
