"""Show a layer statement by statement. A call passes through the modules in this order:

    step            step(layer, x) runs the layer and returns a Walk
    record          records the arrays that each statement of forward and backward reads and writes
    marks           decides which values of backward are right
    fold            decides which statements are shown
    pictures        summarises an array by a few numbers and some of its entries
    maths           writes a line of code as a formula, in Unicode and in HTML
    show_terminal   prints the Walk as text
    show_html       writes the Walk as an interactive page, from the files in page/
"""
