"""Write the parts of a formula: in Unicode for terminals, in MathML for browsers."""

import html


class Text:
    """Writes formulas in Unicode."""

    def word(self, text):
        return text

    name = number = upright = word

    def op(self, text):
        if text in (" ", "", "(", ")", "[", "]"):
            return text
        return {",": ", ", "−u": "−"}.get(text, f" {text} ")

    def row(self, *parts):
        return "".join(parts)

    def fraction(self, top, bottom):
        return f"{top} / {bottom}"

    def above(self, base, script):
        return base + {"T": "ᵀ", "2": "²", "3": "³"}.get(script, f"^{script}")

    def below(self, base, script):
        return f"{base}_{script}"

    def index(self, base, index):
        return f"{base}[{index}]"

    def hat(self, base):
        return base + "\u0302"

    def root(self, inner):
        return f"√({inner})"

    brackets_fractions = True


class MathML:
    """Writes formulas in MathML Core."""

    brackets_fractions = False

    def name(self, text):
        return f"<mi>{html.escape(text)}</mi>"

    def word(self, text):
        return f"<mtext>{html.escape(text)}</mtext>"

    def upright(self, text):
        return f'<mi mathvariant="normal">{html.escape(text)}</mi>'

    def number(self, text):
        return f"<mn>{html.escape(text)}</mn>"

    def op(self, text):
        if text == " ":
            return "<mo>&#8290;</mo>"
        return f"<mo>{html.escape(text.removesuffix('u'))}</mo>" if text else ""

    def row(self, *parts):
        return f"<mrow>{''.join(parts)}</mrow>"

    def fraction(self, top, bottom):
        return f"<mfrac>{top}{bottom}</mfrac>"

    def above(self, base, script):
        return f"<msup>{base}<mi>{html.escape(script)}</mi></msup>"

    def below(self, base, script):
        script = script if script.startswith("<") else f"<mi>{html.escape(script)}</mi>"
        return f"<msub>{base}{script}</msub>"

    index = below

    def hat(self, base):
        return f"<mover>{base}<mo>^</mo></mover>"

    def root(self, inner):
        return f"<msqrt>{inner}</msqrt>"
