"""Parse an equation in printed TeX, and decide if it holds for given arrays.

    tex         the parser from TeX to a tree, whose nodes are expressions
    values      the value of a tree, with arrays, functions and numbers for its symbols
    holds       Equation(tex)(dx=dx, ...) compares both sides; Close compares arrays

The notation is that of the book: vectors are rows. Symbols next to each other are a matrix
product, a factor, or a function and its argument. A letter may have a dot, a hat or a tilde.
"""
