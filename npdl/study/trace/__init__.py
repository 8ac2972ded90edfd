"""How a run is watched, and what it should have computed; step and blame ask here.

    source      the tree of a function that runs, and code made of a changed tree
    statements  a function, its statements and expressions: what can be read of them without a run
    watch       every value that a run computes passes through one hook: recorded, shifted, replaced
    runs        a layer's forward and backward again and again, watched, and what is wrong with them
    oracle      the true gradient of everything that forward computes, each use and time step apart
    syntax      expressions written, taken apart, changed
"""
