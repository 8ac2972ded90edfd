"""Watch the values that a forward and a backward compute, for `step` and `blame`.

    source      finds the syntax tree of a function that runs, and compiles a changed tree
    statements  describes a function, its statements and its expressions
    watch       rewrites functions so that their values can be recorded, perturbed or replaced
    runs        runs a layer's forward and backward, watched, and compares the gradients
    oracle      tells if a value is the true gradient of a variable of forward
    syntax      takes expressions and statements apart, and copies them with a change
"""
