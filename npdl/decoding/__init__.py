"""Decoding: greedy, beam search, exhaustive search and sampling.

Every method takes a `Scorer`, which returns the log-probabilities of the next tokens. A `Tree` is a
Scorer whose probabilities are given as data. npdl.decoding.model_scorers makes the Scorer of a
model.
"""

from npdl.decoding.beam import BeamResult, BeamStep, beam_search, full_beam_search
from npdl.decoding.exhaustive import ExhaustiveResult, exhaustive_search
from npdl.decoding.sampling import filter_probabilities, greedy, sample
from npdl.decoding.scorer import Hypothesis, Ranking, Scorer
from npdl.decoding.tree import Tree

__all__ = ["BeamResult", "BeamStep", "ExhaustiveResult", "Hypothesis", "Ranking", "Scorer", "Tree",
           "beam_search", "exhaustive_search", "filter_probabilities", "full_beam_search", "greedy",
           "sample"]
