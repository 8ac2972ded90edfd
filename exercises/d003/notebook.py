"""Document 003, section 5: the notebook, which asks for code alone."""

from exercises.course import question, table


@question("003.s5", "The notebook: Transformer architectures and language modelling")
def notebook(work):
    """Implement Transformer architectures and train them (report 5 points, tests 11).

    The notebook's cells are in an archive and not in the document, so that no claim of it can be
    judged. npdl has the architectures that its title names.
    """
    work.say("Where the code is; `python -m npdl homework --out homework --layers LAYER` writes an "
             "exercise to implement one of these layers yourself:",
             table(("architecture", "code in npdl", "LAYER", "trained by"), [
                 ("attention with several heads", "layers/attention.py", "MultiHeadAttention", ""),
                 ("a block", "layers/transformer.py", "Block", ""),
                 ("encoder and decoder", "models/seq2seq.py", "Seq2Seq",
                  "experiments/train_seq2seq.py"),
                 ("language model", "models/gpt.py", "GPT", "experiments/train_gpt.py")]))
