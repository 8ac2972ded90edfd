"""The first wrong line of a backward. A call passes in this order:

    blame            blame(layer, x): a Blame; assert_right
    search           check, locate, prove, say, in this order; weights: every number it goes by
    no_fault, branch_coverage   what is said where nothing is, and which sides no input reached
    raised_exceptions   where an exception comes from
    shrink           smaller inputs, and others to try a proof on
    locate, solve, suspects     which statements could be the mistake, and what they have to be
    remedies, prove  where a change is looked for; the smallest of each kind that could mend all
    hidden           the first of two mistakes, which hides the other
    trial            whether one does: it is run, and run on other inputs too
    scope, edits, node_edits, joint_edits   what such a change is made of
    numeric_edits, operands, power_products, multiples      what is missing, found in the numbers
    derivatives      the slopes of forward's own expressions, as formulas
    say, report, show_blame     a Blame of what was found; as text, and as HTML
"""
