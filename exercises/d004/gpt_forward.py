"""Document 004, Problem 2.9: the shapes that a GPT returns, and where its norm is."""

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.models.gpt import GPT, attentions, hidden_states


@question("004.2.9", "The forward pass of a GPT")
def forward(work, B=2, S=3, V=5, d=4, L=2, heads=2):
    """Return logits, the hidden states per layer and the attention weights per layer."""
    logits, cache = GPT(V, d, L, heads, dtype="float64").forward(np.zeros((B, S), int))
    found = logits, hidden_states(cache), attentions(cache)
    shapes = (B, S, V), (B, L, S, d), (B, L, heads, S, S)
    x, branch = np.array([1.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0])
    pre = x + branch
    post = (pre - pre.mean()) / pre.std()
    block = ((B, S, d), (B, heads, S, S))
    work.say(f"B = {B} sequences of S = {S} tokens, V = {V}, d = {d}, L = {L} blocks of {heads} "
             "heads; A₁, A₂ are the weights of attention.")
    work.step("Follow the shapes. Each block hands on its output and its weights; keep both.",
              table(("name", "made by", "shape"), [(name, how, str(shape)) for name, how, shape in (
                  ("ids", "", (B, S)), ("x", "E[ids] + PE", (B, S, d)),
                  ("h₁, A₁", "block 1 (x)", block), ("h₂, A₂", "block 2 (h₁)", block),
                  ("logits", "classifier(h₂)", shapes[0]),
                  ("hidden_states", "h₁, h₂ stacked on axis 1", shapes[1]),
                  ("attentions", "A₁, A₂ stacked on axis 1", shapes[2]))]))
    work.step("L blocks give L hidden states: the outputs of the blocks. The embedding's sum is "
              "not one of them; with it there would be L + 1.", f"L = {L}: {shapes[1]}")
    work.step("The place of a LayerNorm decides what such an output is. After the sum (post) "
              "every row has mean 0 and deviation 1; before the branch (pre) the sum is handed on "
              "as it is, and one more norm is needed before the classifier.",
              "post: y = LN(x + f(x))      pre: y = x + f(LN(x))",
              f"the same branch f = {vec(branch, 0)} added to x = {vec(x, 0)}:",
              f"post {vec(post)}, pre {vec(pre, 0)}")
    work.step("Return the logits as they are: the loss takes the log-softmax.")
    work.answer(f"logits {shapes[0]}, hidden_states {shapes[1]}, attentions {shapes[2]} for B = "
                f"{B}, S = {S}, V = {V}, L = {L}, {heads} heads, d = {d}.")
    work.say("In npdl: GPT.forward in npdl/models/gpt.py; experiments/train_gpt.py trains it.")
    work.check("npdl's GPT gives these shapes", tuple(a.shape for a in found) == shapes)
    work.check("its hidden states, post-norm, have mean 0 and mean square 1 in every row",
               np.allclose(found[1].mean(-1), 0, atol=1e-6)
               and np.allclose((found[1] ** 2).mean(-1), 1, atol=1e-2))
    logits, cache = GPT(36, 8, 3, 2).forward(np.zeros((2, 6), int))
    for part, says, said, array, shape in (
            ("logits", "The GPT returns logits (B, S, V).", "logits", logits, (2, 6, 36)),
            ("hidden states", "hidden_states is (B, num_layers, S, embedding_size).",
             "(B, num_layers, S, embedding_size)", hidden_states(cache), (2, 3, 6, 8)),
            ("attentions", "attentions is (B, num_layers, num_heads, S, S).",
             "(B, num_layers, num_heads, S, S)", attentions(cache), (2, 3, 2, 6, 6))):
        work.claim(part, says, said, f"{array.shape}", judge(array.shape == shape),
                   "npdl's GPT with B = 2, S = 6, V = 36, width 8, 3 layers, 2 heads")
    ids = np.array([[3, 1, 4, 1], [5, 9, 2, 6]])
    post, pre = (GPT(36, 8, 3, 2, norm=place, dtype="float64") for place in ("post", "pre"))
    gap = abs(post.forward(ids)[0] - pre.forward(ids)[0]).max()
    work.claim(
        "norm", "A block is attention and feed-forward net with skip-connections and LayerNorm.",
        "the parts named, their order left to a figure",
        "two blocks fit: LayerNorm after each sum (post, npdl's default) or before each branch "
        "(pre, with one more at the end)", judge(gap < 1e-9, if_false="under-specified"),
        f"an example, weights of seed 0 in both: logits differ by up to {gap:.2f}; pre-norm learns "
        f"{pre.count_params() - post.count_params()} numbers more; holds with the figure that the "
        "text points to")
