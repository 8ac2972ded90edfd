"""Finding sequences: greedy, beam search, exhaustive search, sampling.

Every method works on a `Scorer`, which says how probable each next token is. A `Tree` of
probabilities given as data is one; npdl.decoding.continuation has one for each model.
"""

from npdl.decoding.beam import BeamResult, Step, beam_search
from npdl.decoding.exhaustive import ExhaustiveResult, exhaustive_search
from npdl.decoding.full_beam import full_beam_search
from npdl.decoding.sampling import filtered, greedy, sample
from npdl.decoding.scorer import Hypothesis, Ranking, Scorer
from npdl.decoding.tree import Tree

__all__ = [
    "BeamResult", "ExhaustiveResult", "Hypothesis", "Ranking", "Scorer", "Step", "Tree",
    "beam_search", "exhaustive_search", "filtered", "full_beam_search", "greedy", "sample",
]
