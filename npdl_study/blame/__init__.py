"""The first wrong line of a backward. A call passes in this order:

    blame            blame(layer, x): a Blame; assert_right
    search           check decides whether anything is wrong; then locate, prove, say
    no_fault, branch_coverage   what is said where nothing is, and which sides no input reached
    raised           where an exception comes from
    shrink           smaller inputs, and others to try a proof on
    locate, solve, suspects     which statements could be the mistake, and what they have to be
    prove            the smallest change that makes every gradient right, on other inputs too
    words, edits, node_edits    what such a change is made of
    fits, operands, power_products, sums    what is missing, found in the numbers
    report, show_blame          the Blame as text, and as HTML
"""
