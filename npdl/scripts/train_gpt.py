"""Train a GPT on modular arithmetic until it groks, or on a text.

The defaults are document 004's: 31 residues, addition, half of the equations to train on, two
layers of width 128 with four heads, AdamW with weight decay 1, 10001 steps; and gradients clipped
at norm 1, which the document does not say: it is from the published starter code of its course
(--recipe). Everything that the run makes goes into one folder. Ctrl-C saves and stops; --resume
goes on, bit for bit.

  python -m npdl train-gpt
  python -m npdl train-gpt --p 11 --orders 2,3 --stratified --out runs/mixed
  python -m npdl train-gpt --text plays.txt --out runs/plays
  python -m npdl train-gpt --resume --out runs/mixed
"""

from npdl.training import cli


def main(arguments=None, prog=None):
    """Train as the arguments say; returns the exit status."""
    return cli.main("gpt", __doc__, arguments, prog)
