"""A language model that is given as data: a tree of words with probabilities."""

import math

import numpy as np

from npdl.decoding.scorer import Scorer
from npdl.errors import InputError


class Tree(Scorer):
    """A probability tree as nested dictionaries, {word: (log-probability, subtree)}.

        Tree({"the": (-1.7, {"green": -3.6, "red": -3.3}), "a": (-2.0, {"blue": -2.7})})

    A word with a number and no subtree is a leaf. With ``probabilities=True`` the numbers are
    probabilities instead of log-probabilities. The probabilities of the branches of a node may sum
    to less than 1, because improbable words can be left out. A token is the index of a word in
    `vocab`. If `vocab` is None, it is the sorted list of all words. `words` converts tokens to
    words. Raises InputError for an empty tree, for probabilities outside [0, 1] or with a sum above
    1, and for words that are not in `vocab`.
    """

    def __init__(self, branches, vocab=None, probabilities=False):
        if not branches:
            raise InputError("Tree: there are no branches; give at least one word")
        self.probabilities = probabilities
        nodes = []                                          # {word: (log-probability, node)}
        self._add_nodes(branches, [], nodes)
        words = {word for node in nodes for word in node}
        self.vocab = sorted(words) if vocab is None else list(vocab)
        self._token = {word: i for i, word in enumerate(self.vocab)}
        self._nodes = [{self.token(word): child for word, child in node.items()} for node in nodes]

    def token(self, word):
        """Return the token of a word. Raise InputError for an unknown word."""
        if word not in self._token:
            raise InputError(f"Tree: the word {word!r} is not in vocab; use another word, or add "
                             "it to vocab")
        return self._token[word]

    def words(self, tokens):
        """Return the words of a list of tokens, or of a Hypothesis."""
        return [self.vocab[token] for token in getattr(tokens, "tokens", tokens)]

    def start(self):
        return self._make_score_rows([0]), [0]

    def advance(self, state, parents, tokens):
        nodes = self._child_nodes(state, parents, tokens)
        return self._make_score_rows(nodes), nodes

    def is_leaf(self, state, parents, tokens):
        children = self._child_nodes(state, parents, tokens)
        return np.array([not self._nodes[node] for node in children], bool)

    def _child_nodes(self, state, parents, tokens):
        return [self._nodes[state[p]][int(t)][1] for p, t in zip(parents, tokens, strict=True)]

    def _make_score_rows(self, nodes):
        rows = np.full((len(nodes), len(self.vocab)), -math.inf)
        for row, node in zip(rows, nodes, strict=True):
            for token, (log_prob, _) in self._nodes[node].items():
                row[token] = log_prob
        return rows

    def _add_nodes(self, branches, path, nodes):
        """Append the node after the words `path`, and all nodes below it, to `nodes`."""
        node = {}
        nodes.append(node)
        for word, value in branches.items():
            log_prob, below = self._read_branch(value, [*path, word])
            node[word] = (log_prob, len(nodes))
            self._add_nodes(below, [*path, word], nodes)
        if math.fsum(math.exp(log_prob) for log_prob, _ in node.values()) > 1 + 1e-9:
            place = f"after {path}" if path else "at the root"
            raise InputError(f"Tree: the branches {place} have probabilities that sum to more than "
                             "1; lower them")

    def _read_branch(self, value, path):
        """Return (log-probability, subtree) of the branch at the end of the words `path`."""
        is_pair = isinstance(value, (tuple, list)) and len(value) == 2
        number, below = value if is_pair else (value, {})
        if not isinstance(number, (int, float)) or not isinstance(below, dict):
            raise InputError(f"Tree: {value!r} is not a branch; it must be a number, or a number "
                             "and a dictionary of branches")
        if not (0 <= number <= 1 if self.probabilities else number <= 0):
            kind = "between 0 and 1" if self.probabilities else "a log-probability of at most 0"
            raise InputError(f"Tree: the number at {path} is {number!r}; it must be {kind}")
        if self.probabilities:
            return math.log(number) if number else -math.inf, below
        return float(number), below
