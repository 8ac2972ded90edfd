"""What a worked solution prints, held to two other hands: its own equations, and a pencil.

Every equation of numbers is calculated again from the print alone:
`0.5 · 0.906 − 0.3² = 0.363` is right if its sides agree within what the rounding of the printed
numbers allows. A side with a letter in it is no number and is left out. And pencil.txt keeps, of
each question, pieces of lines that were calculated by hand.
"""

import ast
import operator
import re
from pathlib import Path

import numpy as np

SIGNS = {"−": "-", "·": "*", "²": "**2", "³": "**3", "^": "**", "½": "(1/2)", "¼": "(1/4)",
         "¾": "(3/4)", "≈": "=", "σ(": "sigmoid(", "√(": "sqrt("}
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
          ast.Div: operator.truediv, ast.Pow: operator.pow}
CALLS = {"sqrt": np.sqrt, "tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}

# {exercise and question: pieces of its print}
PENCIL = {question: [line.strip() for line in lines] for question, *lines in (
    block.splitlines() for block in (Path(__file__).parent / "pencil.txt").read_text(
        encoding="utf-8").split("\n\n")[1:])}


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


def last_number(text):
    """The text if it is arithmetic; else the sum that ends it, after a word."""
    words = text.split()
    for i in range(len(words)):
        end = " ".join(words[i:])
        if tree_of(end) and (i == 0 or re.fullmatch(r"[a-z]{3,}", words[i - 1]) and isinstance(
                tree_of(end), ast.BinOp)):
            return end
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
            left, right = last_number(left), first_number(right)
            if left and right:
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


def mistakes(question, solution, shown):
    """What a solution prints and does not hold; shown is its whole print."""
    lines = [solution.answer, *(step.numbers for step in solution.steps)]
    return [*(f"{mistake} is printed" for text in lines for mistake in wrong(text)),
            *(f"a pencil has {piece!r}" for piece in PENCIL.get(question, ())
              if piece not in shown)]
