"""Watch the values that a forward and a backward compute, for `step` and `blame`.

    source      the syntax tree of a function that runs, and code made of a changed tree
    statements  a function, its statements and expressions, as they are written
    watch       rewrites functions so that their values can be recorded, perturbed or replaced
    runs        runs a layer's forward and backward, watched, and compares the gradients
    oracle      the true gradient of each value that forward computes, for each use and time step
    syntax      takes expressions and statements apart, and copies them with a change
"""
