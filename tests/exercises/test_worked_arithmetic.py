"""Every equation of numbers that a worked solution prints, calculated again from the print alone.

`0.5 · 0.906 − 0.3² = 0.363` is right if its sides agree within what the rounding of the printed
numbers allows. A side with a letter in it is no number and is left out.
"""

import ast
import operator
import re

import numpy as np
import pytest

from exercises.framework import modules, name_of, solutions_of

SOLVED = [module for module in modules() if hasattr(module, "solutions")]
# No equation of numbers stands in these; arrays, tables, and signs that are read.
WITHOUT = {"d000.search_limits", "d000.birnn_graph", "d001.attention_rank", "d002.lstm_memory",
           "d003.beam_definitions", "d003.parity_lstm", "d003.threshold_neurons",
           "d004.answer_set", "d004.gpt_forward", "d004.sinusoidal_positions"}
SIGNS = {"−": "-", "·": "*", "²": "**2", "³": "**3", "^": "**", "½": "(1/2)", "¼": "(1/4)",
         "¾": "(3/4)", "≈": "=", "σ(": "sigmoid(", "√(": "sqrt("}
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
          ast.Div: operator.truediv, ast.Pow: operator.pow}
CALLS = {"sqrt": np.sqrt, "tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}


def plain(text):
    """The text as Python would write it; its thousands without commas."""
    for sign, now in SIGNS.items():
        text = text.replace(sign, now)
    text = re.sub(r"√(\d[\d.]*)", r"sqrt(\1)", text)
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)


def tree_of(text):
    """The syntax tree of arithmetic; None where the text is something else."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        value(node, {})
    except (SyntaxError, KeyError, TypeError, ValueError):
        return None
    return node


def value(node, moved):
    """The number or vector that a tree stands for; moved {constant: what is added to it}."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value + moved.get(node, 0)
    if isinstance(node, ast.BinOp):
        return BINARY[type(node.op)](value(node.left, moved), value(node.right, moved))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand, moved)
    if isinstance(node, ast.Tuple):
        return np.array([value(part, moved) for part in node.elts])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return CALLS[node.func.id](*(value(part, moved) for part in node.args))
    raise ValueError("no arithmetic")


def difference(left, right, sources):
    """(how far the sides are apart, how far rounding may have taken them), each the largest."""
    start, allowed = value(left, {}) - value(right, {}), 1e-9
    for tree, source in ((left, sources[0]), (right, sources[1])):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                text = ast.get_source_segment(source, node)
                _, _, digits = text.partition(".")
                if digits[1:]:                          # 0.5 is a half
                    mantissa, _, power = digits.partition("e")
                    step = 0.501 * 10.0 ** (int(power or 0) - len(mantissa))
                    allowed = allowed + abs(
                        value(left, {node: step}) - value(right, {node: step}) - start)
    return abs(start), allowed


def first_number(text):
    """The longest beginning of a text that is arithmetic, if nothing after it belongs to it."""
    words = text.split()
    for i in range(len(words), 0, -1):
        begin = " ".join(words[:i])
        if tree_of(begin) and not (words[i:] and re.match(r"[-+*/(%]", words[i])):
            return begin
    return None


def parts(text):
    """The text cut at ends of lines, semicolons, colons, wide gaps, and commas outside brackets."""
    depth, cut = 0, ""
    for sign in re.sub(r"\n|;| {2,}|: |→|≠", "\0", text):
        depth += (sign in "([") - (sign in ")]")
        cut += "\0" if sign == "," and depth == 0 else sign
    return cut.split("\0")


def equations(text):
    """[(left, right)] of the equations of numbers in some lines, as Python writes them."""
    found = []
    for part in parts(plain(text)):
        sides = [side.strip() for side in part.rstrip(" :").split("=")]
        for left, right in zip(sides, sides[1:], strict=False):
            right = first_number(right)
            if right and tree_of(left):
                found.append((left, right))
    return found


def wrong(text):
    """The equations of a text that do not hold."""
    found = []
    for left, right in equations(text):
        apart, allowed = difference(tree_of(left), tree_of(right), (left, right))
        if np.any(apart > allowed):
            found.append(f"{left} = {right}")
    return found


@pytest.mark.parametrize("text, pairs, mistakes", [
    ("0.5 · 0.906 − 0.3² = 0.363", 1, 0), ("0.5 · 0.906 − 0.3² = 0.364", 1, 1),
    ("h₃ = 2³ · 1 = 8,   L = 8²/2 = 31", 2, 1), ("x + 3 = 5", 0, 0), ("2 · 3 = 6 words", 1, 0),
    ("0.731 · (1, 0) + 0.269 · (0, 2) = (0.731, 0.538)", 1, 0), ("2/3 = 0.667, 1/3 = 0.334", 2, 1),
    ("3 = 2 + 1 = 4", 2, 1), ("(2 − 1) (4 − 1) = 3", 0, 0), ("2^3 − 1 = 7 ≠ 0", 1, 0),
    ("W (1, 0) = (0.50, 0.35)", 0, 0), ("1,200 · 2 = 2,400", 1, 0), ("√9 + σ(0) = 3.51", 1, 1),
])
def test_equations_are_found_and_calculated(text, pairs, mistakes):
    assert (len(equations(text)), len(wrong(text))) == (pairs, mistakes)


@pytest.mark.parametrize("module", SOLVED, ids=name_of)
def test_what_is_printed_adds_up(module):
    lines = [step.numbers for solution in solutions_of(module) for step in solution.steps]
    assert any(map(equations, lines)) == (name_of(module) not in WITHOUT)
    assert [mistake for text in lines for mistake in wrong(text)] == []
