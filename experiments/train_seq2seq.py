"""Train an encoder-decoder to translate dates, written in many ways, into ISO 8601.

"March 3rd, 2021", "wed 3 mar 2021", "03/03/21" (month first), "3.3.21" (day first) -> 2021-03-03.
The dates are days of 1950 to 2049 in the forms of npdl/data/dates.py; the run's seed draws both.
Nine in ten days are for training, and the others for validation. The printed accuracy is the
fraction of dates that are translated without an error. seq2seq is the transformer of Vaswani et al.
2017, and lstm-seq2seq has two LSTMs with the attention of Luong et al. 2015. Both learn by teacher
forcing: the decoder reads the correct previous tokens, not its own output.

The run's folder holds its settings, metrics, curves.png and checkpoint. Ctrl-C saves and stops;
--resume continues with bitwise identical results. To read the loop, see experiments/train_gpt.py.

  python experiments/train_seq2seq.py
  python experiments/train_seq2seq.py --model lstm-seq2seq
  python -m npdl generate runs/seq2seq-dates-seed0 "March 3rd, 2021" --method beam --n-best 3
  python -m npdl plot attention runs/seq2seq-dates-seed0 --text "March 3rd, 2021"
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script()              # Ctrl-C exits without a traceback

import sys

from npdl.train.commands.train import run_script
from npdl.train.run import train


def main(arguments=None):
    """Run the script and return its exit status."""
    return run_script(train, "seq2seq", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
