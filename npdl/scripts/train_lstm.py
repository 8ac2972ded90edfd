"""Train an LSTM language model on modular arithmetic until it groks, or on a text.

The defaults are document 004's: 31 residues, addition, half of the equations to train on, two
layers of width 128, AdamW with weight decay 1, 10001 steps; and gradients clipped at norm 1, which
the document does not say: it is from the published starter code of its course, which also starts
the gates as Glorot & Bengio do (--recipe release). Everything that the run makes goes into one
folder. Ctrl-C saves and stops; --resume goes on, bit for bit.

  python -m npdl train-lstm
  python -m npdl train-lstm --weight-decay 0.25 --steps 40001 --out runs/decay
  python -m npdl train-lstm --text plays.txt --out runs/plays
  python -m npdl train-lstm --resume --out runs/decay
"""

from npdl.training import cli


def main(arguments=None, prog=None):
    """Train as the arguments say; returns the exit status."""
    return cli.main("lstm", __doc__, arguments, prog)
