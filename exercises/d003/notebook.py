"""Document 003, section 5: the notebook, which asks for code alone."""

import numpy as np

from exercises.course import question, table
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.transformer import Block
from npdl.models.gpt import GPT
from npdl.models.seq2seq import Seq2Seq


@question("003.s5", "The notebook: Transformer architectures and language modelling")
def notebook(work):
    """Implement Transformer architectures and train them (report 5 points, tests 11)."""
    classes = {"attention with several heads": MultiHeadAttention, "a block": Block,
               "encoder and decoder": Seq2Seq, "language model": GPT}
    work.say("The notebook's cells are in an archive and not in the document, so that no claim of "
             "it can be judged. npdl has the architectures that its title names.",
             table(("architecture", "class", "module"), [
                 (name, one.__name__, one.__module__) for name, one in classes.items()]))
    work.answer("`python -m npdl homework --out homework --layers Block` writes an exercise to "
                "implement a block yourself, experiments/train_gpt.py trains a language model, "
                "experiments/train_seq2seq.py an encoder and decoder.")
    logits, _ = GPT(7, 4, 1, 2).forward(np.zeros((2, 3), int))
    work.check("npdl's language model returns logits of each token of the vocabulary",
               logits.shape == (2, 3, 7))
