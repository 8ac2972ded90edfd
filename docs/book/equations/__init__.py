"""Read an equation as it is printed, in TeX, and decide whether it holds for arrays.

    tree        the nodes of an expression
    tex         the notation: TeX read into a tree
    values      the value of a tree, with arrays, functions and numbers for its symbols
    holds       Equation(tex)(dx=dx, ...) compares both sides; Close compares arrays
    measured    the numbers that equations are about: numerical gradients, local variables

The notation is that of the book: rows times matrices; side by side a matrix product, a factor, or
the argument of a function; a dot, a hat or a tilde above a letter; sums over indices.
"""
