"""Document 003, section 5: the notebook. It asks for code alone; exercises.asked says where it is.

The notebook comes in an archive that is not printed; from it the document names Transformer
architectures and language modelling, for 16 points.
"""

QUESTION = """\
Section 5, the notebook Transformer_Architectures: implement Transformer architectures and train
them (report 5 points, tests 11). Its cells are in an archive and not in the document, so that no
claim of it can be judged. npdl has the architectures that its title names: attention with several
heads, encoder and decoder, both joined for one sequence into another, and a decoder alone that
models a language."""
TITLES = {"s5": "The notebook: Transformer architectures and language modelling"}


def claims():
    return []
