"""Document 004, Problem 2.9, worked: the shapes of a GPT, and where its LayerNorms stand."""

import numpy as np

from exercises.worked import Check, Solution, Step, Table, vec
from npdl.models.gpt import GPT, attentions, hidden_states

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
    return Solution(
        "2.9",
        (
            Step("Follow the shapes. Each block hands on its output and its weights; keep both.",
                 table=Table(("name", "made by", "shape"),
                             tuple((a, b, str(c)) for a, b, c in flow))),
            Step("L blocks give L hidden states: the outputs of the blocks. The embedding's sum "
                 "is not one of them; with it there would be L + 1.",
                 numbers=f"L = {blocks}: {shapes['hidden_states']}"),
            Step("Where a LayerNorm stands decides what such an output is. After the sum (post) "
                 "every row has mean 0 and deviation 1; before the branch (pre) the sum is handed "
                 "on as it is, and one more norm is needed before the classifier.",
                 "post: y = LN(x + f(x))      pre: y = x + f(LN(x))",
                 f"the same branch f = {vec(branch, 0)} added to x = {vec(x, 0)}:\npost "
                 f"{vec(post)}, pre {vec(pre, 0)}"),
            Step("Return the logits as they are: the loss takes the log-softmax."),
        ),
        f"logits {shapes['logits']}, hidden_states {shapes['hidden_states']}, attentions "
        f"{shapes['attentions']} for B = {B}, S = {S}, V = {V}, L = {blocks}, {heads} heads, "
        f"d = {D}.",
        (Check("npdl's GPT gives these shapes",
               [a.shape for a in (logits, hidden, attentions(cache))] == list(shapes.values())),
         Check("its hidden states, post-norm, have mean 0 and mean square 1 in every row",
               np.allclose(hidden.mean(-1), 0, atol=1e-6)
               and np.allclose((hidden**2).mean(-1), 1, atol=1e-2))))


def solutions():
    return [forward()]
