"""Train an LSTM language model on modular arithmetic until it groks, or on a text.

The defaults are document 004's: 31 residues, addition, half of the equations to train on, two
layers of width 128, AdamW with weight decay 1, gradients clipped at norm 1, 10001 steps. Everything
that the run makes goes into one folder. Ctrl-C saves and stops; --resume goes on, bit for bit.

  python experiments/train_lstm.py
  python experiments/train_lstm.py --weight-decay 0.25 --steps 40001 --out runs/decay
  python experiments/train_lstm.py --text plays.txt --out runs/plays
  python experiments/train_lstm.py --resume --out runs/decay
"""

import sys

if __name__ == "__main__":
    from npdl.script import begin

    begin()
    from npdl.training.cli import main

    sys.exit(main("lstm", __doc__))
