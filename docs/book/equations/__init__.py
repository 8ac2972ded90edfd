"""An equation as it is printed, in TeX, and whether it holds for arrays.

    tree        the nodes of an expression
    tex         the notation: TeX read into a tree
    values      what a tree is, with arrays, functions and numbers for its symbols
    holds       Equation(tex).holds(dx=dx, ...): both sides compared; Close, which compares arrays
    measured    the numbers that equations are about: numeric gradients, a function's local names

The notation is that of the book: rows times matrices, side by side a matrix product (or a factor,
or a function of what follows), a dot, a hat or a tilde above a letter, sums over indices. What
cannot be read this way is no equation.
"""
