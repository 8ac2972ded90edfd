"""Watch the values that a forward and a backward compute, for `step` and `blame`.

    source      finds the syntax tree of a function that runs, and compiles a changed tree
    statements  describes a function, its statements and its expressions
    watch       rewrites functions so that their values can be recorded, perturbed or replaced
    runs        runs forward and backward with changed values, and compares the gradients
    oracle      decides if a value is the true gradient of a variable of forward
    syntax      splits expressions and statements, and copies them with a change
"""
