"""Every number that a search goes by, the reason beside it.

A cost says how unlikely a slip is; a change of a statement has one of four, TOKEN to FORMULA.
`python -m tests.tools.weight_ranges open` measures the others: in these ranges, the rest as it is,
no comparison in the search for the 37 mistakes of the open set turns out otherwise, so that no
answer can. Outside, one may; `--times NAME FACTOR` prints the answers.

    ALIKE 0.1 .. 0.2        BENT 0.41 .. 0.61       PENALTY 3.5 .. 5, 0.95 .. 1.05
    NOTHING 0.09 .. 0.11    SOMETHING 0.8 .. 1.01   FOLLOWS 0.18 .. 0.21
    UNUSED 0.29 .. 0.4      DEAD 0.99 ..            SCALED 2 .. 3.45
    ARRAY 0.298 .. 0.358    LETTER 0.0089 .. 0.028  LIKELIER, ODD: any number
    MISSING 1.99 .. 2.29, 0.5 .., 1.3 .., 2.91 .. 3.83, 2.6 .., any

Not measured since a change that is run has a cost of its own (TO_RUN): WORK, FORWARD, HALF, AGAIN.
"""

TOKEN = 1.0                     # one token for another, or one too many: what is typed wrong
FACTOR = 1.2                    # a factor, a sign, a transpose more: right but for one thing
TERM = 1.6                      # a term, a sum, a function, another index: a step is missing, even
                                # where it reads what nothing reads (UNUSED)
FORMULA = 2.0                   # a root, a slope, an axis, a product of two: a step of two parts
WORK = 11_000_000               # values that a search may compute, then it gives up: 8 s or so
SECONDS = 30.0                  # of the processor, for a whole answer: three times what WORK takes,
                                # so that a slow or busy machine gives the same
FORWARD = 600_000               # of WORK for a slip of forward's, which is rarely the mistake
HALF = 0.5                      # of WORK for what could mend a part: the rest is for what then
                                # mends the other
AGAIN = 0.3                     # of WORK and SECONDS for the second of two mistakes, and for all
                                # second ones, beside what the first has left
GLANCE = 0.1                    # of WORK and SECONDS to see whether a first mend leaves one more
GUESSES = 8                     # first mends that are looked at so
ALIKE = 0.11                    # costs that differ by less are of one likelihood: kinds are further
                                # apart, what orders the lines of one kind (NOTHING, LETTER) is not
LIKELIER = 0.7                  # what a change of backward costs more than a likelier one of
                                # forward's: a factor of two tokens, and not one of one
TAKEN = TERM                    # a change that costs more is doubted where it reads another line,
                                # and looked for in the numbers as well
SLIP = FACTOR                   # a slip of forward's costs less: it is one token
STAGES = (0, TERM, FORMULA, 9.0)    # the lines without values: what costs less than a term in
                                # any of them comes before a term in any, and that before the rest
BENT = 0.5                      # odds of what forward's values alone give, as a mask: such a value
                                # mends many gradients by chance, and seldom is the mistake
NOTHING = 0.1                   # odds of the gradient of nothing in forward: hardly any
SOMETHING = 1.0                 # odds of the gradient of something: as much as a token
FOLLOWS = 0.2                   # of a line that reads what is suspected: more than ALIKE, so that
                                # the first of two comes first, no more than a kind of change
PENALTY = {-1: 4, 0: 1}         # how often FOLLOWS counts: after what has not the gradient that its
                                # name promises, that is nearly sure; after what has none, once
SCALED = 3                      # the same of a line that only gives such a product the upstream
                                # gradient: rather than it what makes the product (BENT)
TRIED = 4                       # proofs that are tried on the student's own inputs: a check each
UNUSED = 0.3                    # what an edit costs less that reads what nothing reads, and more
                                # that leaves such: less than from a factor to a term
DEAD = 1.0                      # what it costs less to add to what is there, which nothing has
                                # read: then = for += is the slip, before any of one token
MISSING = {"factor": 2, "term": 2.6, "softmax": 2.9, "slope": 3, "whole": 3.2, "sum": 3.6}
                                # what is found in numbers: the dearer, the less of a line it keeps
ARRAY = 0.3                     # for each array that it reads: the simplest is meant
LETTER = 0.01                   # for each letter of a slope's formula: of two the shorter
ODD = {"factor": 2, "term": 3}  # for a number such as 0.3679, that nobody writes: it fits by chance
SHIFT = 0.3                     # of the numbers that a proof is tried on anew: far more than CLOSE
FACTORS = (10.0, -1.0, 0.01, -10.0)     # that inputs are scaled with, to reach the other sides:
                                # beyond a clip, of the other sign, near 0, and two of these
SLIGHT = 1e-3                   # a number that is less is an eps; what is off by less lacks one
CLOSE = 1e-6                    # of its size: two arrays agree; ten times what gradcheck allows
ZERO = 1e-9                     # of the largest entry: one is 0 but for rounding
POWER = 1e-3                    # from a half or whole number: the power is that one
RIDGE = 1e-13                   # of a system's trace, for arrays that are much alike
HUGE = 1e100                    # a derivative beyond it has overflowed

# how many are tried, of what there may be more:
PASSED_ON = 3                   # names that a turn of a loop may hand on to the next
MOVED = 700                     # entries of a statement that are moved, one by one
OF_A_KIND = 12                  # edits of one kind that are found in numbers
PAIRED = 24                     # arrays of which products of two are tried
PRODUCT = 16_384                # entries of such a product
POINTS = 32                     # entries of an array, that the powers in it are found from
PART = 12                       # nodes of a part of a sum or product that is taken for a word
SMALL_ENOUGH = 64               # entries of the largest input: fewer are left as they are
LENGTHS = (2, 3, 4)             # what the axes of one length are cut to: the first that fails too
CUT = 3                         # lengths that lose one, for other inputs to try a proof on
