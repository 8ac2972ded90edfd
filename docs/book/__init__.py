"""The book: the backward of every layer, derived and checked. `python -m docs.book` builds it.

A chapter is chapters/NN-name.md in MyST. It has this form:

    the box                   `> **You will be able to** ...`, `> **You need** ...`, `> **Time** ..`
    the question              one paragraph
    What it does              a trained model, an example by hand, sliders, a question
    Diagram and shapes        pictures, the graph of a recorded run, a table of all shapes
    Forward                   equations and source
    Backward by hand          one sample, with a number on every edge
    The derivation            each rule in words where it is used, intermediate lines written
    Summary                   a table of forward and backward formulas, three sentences
    Backward, line by line    source;  Gradient check: proof;  What goes wrong here: mistakes
    Exercises                 ### Easy, ### Medium, ### Hard, each with a folded solution;
                              the questions of the course in a fold "From the course"
    Write it yourself         a homework, and the link to the notebook of a chapter with a backward
    Elsewhere                 the same topic in d2l, CS231n and the paper, with their symbols

A test checks the order of the sections, the three lines of the box, that each grade has a folded
solution, and the numbers and citations of equations (tests/book/test_book.py). It also runs each
block ```python of a solution, which must print something.

The text is written by hand. Fenced directives insert results that are computed from the source:

    ```{picture} lstm-cell    a picture, and its caption; {f[0][1]} in it is computed from the
                              record of the trained model
    ```{sum}                  TeX with numbers only, then ---, then code that ends in holds(...)
    ```{ask}                  a question; `> expression`, evaluated with npdl and the records of the
                              chapter's models; `: text` with {answer}, the result
    ```{graph} LSTMCell       the graph of a recorded run of a layer
    ```{equation} lstm-3      TeX, numbered in order; cited in text by {from}`lstm-3`. Below a line
                              ---: code that compares the equation with the layer's own numbers
                              (docs.book.checks lists the names that this code can use)
    ```{source} npdl.layers.recurrent:LSTMCell.backward
                              the function next to its formulas; in the body, `line <- lstm-3`
                              names the equations of a line, and `line <-` lists a line of a
                              backward that computes something, but has no equation
    ```{proof} LSTMCell LSTM  their gradient checks, run while the book is built
    ```{mistakes} npdl.layers.recurrent:LSTMCell [LAYER]
                              `old -> new`, and the reason in a line `: why` below it. `blame` runs
                              on each mistake and must name the changed line first; if another
                              line is rightly the first, a line `! why` gives the reason
    ```{questions} 002.3.1    solved by `exercises`

An error ends the build, with file and line: a check that fails or compares nothing, a line that
is not in the source or cites nothing, a mistake that blame does not find or assigns to another
line, a question or a link that does not exist. pictures.py draws, notebooks.py makes notebooks,
and equations/ parses the TeX of an equation and evaluates both sides for arrays.
"""
