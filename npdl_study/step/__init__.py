"""A layer, statement by statement. A call passes in this order:

    step            step(layer, x): a Walk; check decides what is right, blame which line is wrong
    record          what each statement of forward and backward read and wrote (trace.watch tells)
    marks           what is known of each value: the oracle's word (trace.oracle), or blame's
    fold            which statements are mathematics, and shown
    pictures        an array in a few numbers and a small picture
    maths, markup   a line of code as a formula, in Unicode and in MathML
    show_terminal, show_html (with page/)   the Walk as lines, and as a page that plays
"""
