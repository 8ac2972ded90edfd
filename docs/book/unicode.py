"""Unicode mathematics, as the worked solutions print it, as MathML: ∂h_T/∂hₜ₋₁ᵀ, e^(x_i), √(d).

One letter is a variable, a word a name; letters that stand low or high, and what follows _ or ^,
are indices and exponents, also of a bracket; √ covers what follows. Nothing is lost: the characters
of the formula, plain, are those of the line.
"""

import itertools
import re
import unicodedata
from html import escape

LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+−=()aehijklmnoprstuvx", strict=True))
HIGH = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵀᵏⁿⁱʲᵗˣʸᶻᶠᵇᵈᵐᵖʰ'", "0123456789+−=()Tknijtxyzfbdmph′",
                strict=True))
SHORT = 24                      # letters in a bracket that stays on one line
BRACKETS = {"(": ")", "[": "]", "{": "}"}
SCRIPT = re.compile(r"[A-Za-zΑ-ω0-9]+(?:,[a-z](?![A-Za-z]))?|.")
TOKEN = re.compile(r"(?P<space>\s+)|(?P<number>\d+(?:[.,]\d+)*)|(?P<word>[^\W\d_](?:\u0303|\u0302|"
                   r"\u0304|\u0307)?(?:[^\W\d_][\u0302-\u0307]?)*)|(?P<other>.)")


def mathematics(text):
    """HTML of lines of Unicode mathematics: a line may break at each space that no
    short bracket holds."""
    lines = "".join(f"<div>{_line(line.strip())}</div>" for line in text.split("\n"))
    return f'<div class="worked">{lines}</div>'


def _line(text):
    places, at = [0], 0
    while at < len(text):
        end = _closing(text, at)
        whole = end - at < SHORT or text[at - 1] in "√_^"
        at = end + 1 if end and whole else at + 1
        if text[at - 1] == " ":
            places.append(at)
    words = [text[a:b] for a, b in itertools.pairwise([*places, len(text)])]
    return "".join(f'<math displaystyle="true">{_row(word)}</math>' if word.strip() else "\u2003"
                   for word in words)


def _row(text):
    parts, place = [], 0
    while place < len(text):
        part, place = _item(text, place)
        parts.append(part)
    return f"<mrow>{''.join(parts)}</mrow>"


def _item(text, place):
    """(MathML, the place behind it) of the thing at `place`, with its indices and exponents."""
    character = text[place]
    if character in BRACKETS and (end := _closing(text, place)):
        inside = _row(text[place + 1 : end])
        base, place = f"<mrow>{_mo(character)}{inside}{_mo(text[end])}</mrow>", end + 1
    elif character == "√" and place + 1 < len(text):
        under, place = _item(text, place + 1)
        base = f"<msqrt>{under}</msqrt>"
    elif character in LOW or character in HIGH:             # of nothing that comes before
        base = "<mrow></mrow>"
    else:
        base, place = _token(text, place)
    return _scripted(base, text, place)


def _token(text, place):
    match = TOKEN.match(text, place)
    kind, found = match.lastgroup, match.group()
    if kind == "word":                                      # scripts are letters to Python, too
        length = next((i for i, c in enumerate(found) if c in LOW or c in HIGH), len(found))
        found = found[:length]
        names = len(unicodedata.normalize("NFC", found)) > 1
        element = f'<mi{" mathvariant=normal" if names else ""}>{escape(found)}</mi>'
        element = element.replace("=normal", '="normal"')
    elif kind == "space":
        element = f'<mspace width="{0.25 if len(found) == 1 else 1.5}em"></mspace>'
    else:
        element = f"<mn>{found}</mn>" if kind == "number" else _mo(found)
    return element, place + len(found)


def _mo(character):
    return f'<mo stretchy="false">{escape(character)}</mo>'


def _scripted(base, text, place):
    low = high = ""
    while place < len(text):
        character = text[place]
        if character in LOW:
            low, place = low + LOW[character], place + 1
        elif character in HIGH:
            high, place = high + HIGH[character], place + 1
        elif character in "_^" and place + 1 < len(text):
            end = _closing(text, place + 1)
            if end:
                found, after = text[place + 2 : end], end + 1
            else:
                sign = text[place + 1] in "−-+"
                found = SCRIPT.match(text, place + 1 + sign).group()
                found, after = text[place + 1 : place + 1 + sign] + found, place + 1 + sign + len(
                    found)
                kept = next((i for i, c in enumerate(found) if c in LOW or c in HIGH), len(found))
                found, after = found[:kept], after - len(found) + kept
            low, high = (low + found, high) if character == "_" else (low, high + found)
            place = after
        else:
            break
    if low and high:
        return f"<msubsup>{base}{_letters(low)}{_letters(high)}</msubsup>", place
    if low or high:
        tag = "msub" if low else "msup"
        return f"<{tag}>{base}{_letters(low or high)}</{tag}>", place
    return base, place


def _letters(text):
    """A script: its letters are variables one by one (ij), its numbers whole."""
    spaced = re.sub(r"(?<=[A-Za-z])(?=[A-Za-z])", "\u2063", text)
    return _row(spaced).replace('<mo stretchy="false">\u2063</mo>', "")


def _closing(text, place):
    """The place of the bracket that closes the one at `place`, or 0 where none does."""
    if text[place] not in BRACKETS:
        return 0
    depth = 0
    for i in range(place, len(text)):
        depth += (text[i] in BRACKETS) - (text[i] in BRACKETS.values())
        if not depth:
            return i if text[i] == BRACKETS[text[place]] else 0
    return 0
