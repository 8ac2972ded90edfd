"""A chapter as a page: its directives become HTML, everything else stays as it is written."""

import re
from html import escape

from docutils.utils.math import MathError

from docs.book import checks, frame, graphs, opening, sources
from docs.book.chapter import CITED, labels
from docs.book.formulas import in_parts
from docs.book.markup import coloured, fold, raw, words
from docs.book.mistakes import mistakes
from docs.book.notebooks import asks_for
from docs.book.proofs import proofs
from docs.book.solved import asked
from npdl.errors import InputError
from npdl.study.step import maths

WRONG, YOURSELF = "## What goes wrong here\n", "## Write it yourself\n"
WIDE = 60               # a longer formula repeats its line of code, and is wider than a phone


class Page:
    """Makes the page of a chapter; `known` is {label of an equation: its chapter}."""

    def __init__(self, chapter, known):
        self.chapter, self.known = chapter, known
        self.space = {}
        self.closes = checks.run(chapter, self.space)
        self.steps = frame.step_names(chapter)

    def text(self):
        """Return the page in MyST."""
        made = [f"# {self.chapter.title}\n"]
        for part in self.chapter.parts:
            try:
                made.append(getattr(self, part.name or "prose")(part))
            except (InputError, MathError) as error:
                self.chapter.fail(part.line, str(error))
        return "\n".join(made)

    def prose(self, part):
        """Return text with its citations as links, and with step pages and a notebook's link."""
        text = CITED.sub(lambda m: self.links(part.line, labels(m[1])), part.body)
        if asks_for(self.chapter)[0]:
            text = text.replace(YOURSELF, YOURSELF + raw(
                f'<p class="notebook"><a href="../notebooks/{self.chapter.name}.ipynb" download>'
                "The notebook of this chapter</a> runs its layers and checks your own.</p>"))
        return text.replace(WRONG, frame.steps(self.steps) + "\n" + WRONG)

    def picture(self, part):
        return self.figure(*opening.picture(part))

    def graph(self, part):
        return self.figure(*graphs.drawn(part.given))

    def figure(self, svg, caption):
        return raw(f'<figure class="picture">{svg}<figcaption>{self.inline(caption)}</figcaption>'
                   "</figure>")

    def sum(self, part):
        """Return equations to check on paper, and the code that compares the layer with them."""
        rows = "".join(f'<div class="equation"><div class="parts">{in_parts(line)}</div></div>'
                       for line in opening.summed(self.chapter, part))
        return raw(rows + fold("Check: the layer has these numbers too", listing(part.code),
                               "check"))

    def ask(self, part):
        question, expression, answer = opening.question(self.chapter, part)
        body = f"<p>{self.inline(answer)}</p>{listing(expression)}"
        return raw(f'<div class="ask"><p>{self.inline(question)}</p>'
                   f'{fold("The answer", body, "answer")}</div>')

    def links(self, line, cited):
        return ", ".join(self.link(line, label) for label in cited)

    def link(self, line, label):
        """Return the link to an equation: (3) in this chapter, (1.3) in another."""
        home = self.known.get(label)
        if home is None:
            self.chapter.fail(line, f"equation {label!r} is in no chapter")
        page = "" if home is self.chapter else f"{home.name}.html"
        title = f' title="{escape(home.title)}"' if page else ""
        return (f'<a class="from" href="{page}#{label}"{title}>'
                f"{self.chapter.shown(label, home)}</a>")

    def equation(self, part):
        number = part.given.rpartition("-")[2]
        formula = f'<div class="parts">{in_parts(part.body)}</div>'
        return raw(f'<div class="equation" id="{part.given}">{formula}'
                   f'<a class="number" href="#{part.given}">({number})</a>'
                   f'{self.checked(part, f"Check of ({number})")}</div>')

    def said(self, part):
        return raw(self.checked(part, "Check of the formulas in the text above"))

    def checked(self, part, what):
        """Return a tick that opens the code of a check and its result."""
        close = self.closes[part.given]
        times = f"{close.count} comparison" + "s" * (close.count != 1)
        found = f"worst difference {close.worst:.0e}" if close.worst else "equal to the last bit"
        return fold(f'<span title="{what}" aria-label="{what}">✓</span>',
                    f"<p>{what}: {times}, {found}</p>{listing(part.code)}", "check tick")

    def index(self, part):
        """Return index entries for the words with which a student may search for this chapter."""
        return "\n".join(f"```{{index}} ! {' '.join(word.split())}\n```"
                         for word in part.body.split(","))

    def source(self, part):
        found = sources.cited(self.chapter, part)
        rows = "".join(self.row(part, line) for line in found.lines)
        file = found.module.replace(".", "/") + ".py"
        return raw(
            f'<div class="source highlight" role="group" aria-label="{found.name}">'
            f'<p class="where"><code>{found.name}</code> '
            f'<a href="../source/{found.module}.html#line-{found.first}">{file}</a></p>'
            f'<pre class="head">{coloured(found.head)}</pre>{rows}</div>')

    def row(self, part, line):
        """Return a statement, and beside it its formula and the equations that it comes from."""
        code = "".join(map(hanging, line.code.split("\n")))
        if not line.cited:
            return f'<div class="row alone"><div class="code">{code}</div></div>'
        node, formula = line.statement.node, ""
        if line.statement.is_simple and len(maths.format_text(node)) < WIDE:
            formula = f'<span class="formula">{maths.format_html(node)}</span>'
        return (f'<div class="row"><div class="code">{code}</div><div class="beside">{formula}'
                f'<span class="origin">from {self.links(part.line, line.cited)}</span></div></div>')

    def proof(self, part):
        return proofs(part.given.split())

    def mistakes(self, part):
        made = []
        for mistake in mistakes(self.chapter, part, self.space):
            change = (f'<div class="highlight"><pre class="change">'
                      f"<del>{coloured(mistake.was)}</del><ins>{coloured(mistake.now)}</ins>"
                      f"</pre></div>")
            shown = f"<pre>{escape(mistake.said)}</pre>"
            said = listing(mistake.asked) + shown if mistake.asked else fold(
                "What <code>blame</code> says", shown, "blame", is_open=not made)
            why, other = (f"<p>{self.inline(text)}</p>" if text else ""
                          for text in (mistake.why, mistake.other))
            made.append(f'<div class="mistake">{change}{why}{said}{other}</div>')
        return raw("".join(made))

    def inline(self, text):
        """Return words with `code` and citations as HTML."""
        pieces = CITED.split(text)                      # words, labels, words, labels, words
        return "".join(self.links(1, labels(piece)) if n % 2 else words(piece)
                       for n, piece in enumerate(pieces))

    def questions(self, part):
        return raw("\n".join(
            fold(f"<b>{full}</b> {escape(title)}", body, "question")
            for number in part.given.split() for full, title, body in asked(number)))


def listing(code):
    """Return lines of code as a block."""
    return f'<div class="highlight"><pre>{coloured(code)}</pre></div>'


def hanging(line):
    """Return a line of code that is indented by four more where a narrow page breaks it."""
    indent = len(line) - len(line.lstrip()) + 4
    return (f'<pre style="padding-left: {indent}ch; text-indent: -{indent}ch">'
            f'{coloured(re.sub(" {3,}#", "  #", line))}</pre>')
