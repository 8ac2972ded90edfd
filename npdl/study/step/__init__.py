"""A layer, statement by statement. A call passes through the modules in this order:

    step            step(layer, x): a Walk
    record          what each statement of forward and backward read and wrote (trace.watch)
    marks           which values are right: the true gradient that their name promises
    fold            which statements are mathematics, and shown
    pictures        an array as a few numbers and a small picture
    maths           a line of code as a formula, in Unicode and in HTML
    show_terminal, show_html (with page/)   the Walk as text, and as an interactive page
"""
