"""The book: every backward derived, and checked as it stands. `python -m docs.book` builds it.

A chapter is chapters/NN-name.md in MyST. Its text is written by hand; what can come out of the
source comes out of it, by fences:

    ```{equation} lstm-3      TeX, numbered in order; cited in text by {from}`lstm-3`
    ```{check} lstm-3         directly after it: code that compares it with the layer's own numbers
                              (docs.book.checks says with what names it begins)
    ```{source} npdl.layers.recurrent:LSTMCell.backward
                              the function beside its formulas; in the body, `line <- lstm-3` names
                              the equations that a line comes from, and `-- plumbing:` begins the
                              lines of a backward that come from none
    ```{proof} LSTMCell LSTM  their gradient checks, run while the book is built
    ```{mistakes} npdl.layers.recurrent:LSTMCell [LAYER]
                              `old -> new` and `: why` below it; blame is asked about each, and
                              must first name the line that was changed; where another is
                              rightly first, `! why` says so
    ```{questions} 002.3.1    worked out by `exercises`

What is wrong breaks the build, with file and line: a check that fails or compares nothing, a line
that is not in the source or cites nothing, an equation that nothing cites, a mistake that blame
does not see or puts on another line, a question or a link that leads nowhere. pictures.py draws,
notebooks.py makes a notebook of every chapter and of the scripts in notebooks/, api.py the
reference.
"""
