"""Convert a chapter to a page: directives become HTML, and the text stays as it is."""

import re
from dataclasses import replace
from html import escape

import numpy as np
from docutils.utils.math import MathError

from docs.book import checks, graphs, layers, pictures, sources, trained
from docs.book.chapter import CITED, chapters_by_label
from docs.book.equations.tex import Number, parse_equation
from docs.book.formulas import to_mathml_parts
from docs.book.markup import colour_code, html_block, make_folded_block, text_to_html
from docs.book.mistakes import try_mistakes
from docs.book.notebooks import find_exercise
from docs.book.solved import solve_question
from npdl.errors import InputError
from npdl.study.step import maths

WRONG, YOURSELF = "## What goes wrong here\n", "## Write it yourself\n"
WIDE = 60               # a longer formula repeats its line of code, and is wider than a phone


class Page:
    """A chapter's page. Its methods render the directives."""

    def __init__(self, chapter):
        self.chapter = chapter
        self.closes, self.space = checks.run_checks(chapter)

    def format_page(self):
        """Return the whole page in Markdown (MyST)."""
        made = [f"# {self.chapter.title}\n"]
        for part in self.chapter.parts:
            try:
                made.append(getattr(self, f"render_{part.name or 'prose'}")(part))
            except (InputError, MathError) as error:
                self.chapter.fail(part.line, str(error))
        return "\n".join(made)

    def render_prose(self, part):
        """Return a part of text, with links for citations, step pages, and the notebook's link."""
        text = CITED.sub(lambda m: self.format_link(part.line, m[1]), part.body)
        if find_exercise(self.chapter):
            text = text.replace(YOURSELF, YOURSELF + html_block(
                f'<p class="notebook"><a href="../notebooks/{self.chapter.name}.ipynb" download>'
                "The notebook of this chapter</a> runs its layers and checks your own.</p>"))
        return text.replace(WRONG, layers.embed_step_pages(self.chapter.layer_names) + "\n" + WRONG)

    def render_picture(self, part):
        if part.given not in pictures.NAMES:
            raise InputError(f"picture {part.given!r} is unknown; choose one of: "
                             f"{', '.join(pictures.NAMES)}")
        caption = checks.fill_in_values(" ".join(part.body.split()),
                                        {"np": np} | trained.read_record(part.given))
        return self.format_figure(pictures.render_picture(part.given, caption), caption)

    def render_graph(self, part):
        return self.format_figure(*graphs.draw_graph(part.given))

    def format_figure(self, svg, caption):
        return html_block(f'<figure class="picture">{svg}'
                          f"<figcaption>{self.format_inline(caption)}</figcaption></figure>")

    def render_sum(self, part):
        """Return equations to check on paper, and the code that compares them with the layer."""
        lines = [line.strip() for line in part.body.split("\n") if line.strip()]
        joined = r", \quad ".join(lines)
        checks.run_check(self.chapter, replace(part, given="of the sum"), {"of the sum": joined},
                         checks.make_namespace(self.chapter.name))
        if any(one.operation == "~" and not isinstance(one.parts[1], Number)
               for chain in parse_equation(joined) for one in chain):
            raise InputError("in a sum, write a number after \\approx")
        rows = "".join(f'<div class="equation"><div class="parts">{formula}</div></div>'
                       for formula in map(to_mathml_parts, lines))
        return html_block(rows + make_folded_block("Check: the layer has these numbers too",
                                           format_code_block(part.code), "check"))

    def render_ask(self, part):
        """Return a question and, folded, its answer with the value of its expression."""
        question, expression, answer = (
            " ".join(line.lstrip(">: ") for line in part.body.split("\n")
                     if re.match("[>:]?", line)[0] == sign).strip() for sign in ("", ">", ":"))
        if not question or not expression or not answer:
            raise InputError("an {ask} needs a question, a line > expression, and a line : answer")
        names = checks.make_namespace(self.chapter.name)
        for model in self.chapter.find_directives("picture"):
            names |= trained.read_record(model.given)
        names["answer"] = checks.evaluate_expression(expression, names)
        question, answer = (checks.fill_in_values(text, names) for text in (question, answer))
        body = f"<p>{self.format_inline(answer)}</p>" + make_folded_block(
            "Check: its code", format_code_block(expression), "check")
        return html_block(f'<div class="ask"><p>{self.format_inline(question)}</p>'
                          f'{make_folded_block("The answer", body, "answer")}</div>')

    def format_link(self, line, label):
        """Return the link to an equation: (3) in this chapter, (1.3) in another."""
        home = self.chapter if label in self.chapter.equations else chapters_by_label().get(
            label)
        if home is None:
            self.chapter.fail(line, f"equation {label!r} is in no chapter")
        page = "" if home is self.chapter else f"{home.name}.html"
        title = f' title="{escape(home.title)}"' if page else ""
        return (f'<a class="from" href="{page}#{label}"{title}>'
                f"{self.chapter.format_citation(label, home)}</a>")

    def render_equation(self, part):
        number = part.given.rpartition("-")[2]
        formula = f'<div class="parts">{to_mathml_parts(part.body)}</div>'
        return html_block(f'<div class="equation" id="{part.given}">{formula}'
                          f'<a class="number" href="#{part.given}">({number})</a>'
                          f'{self.format_check_tick(part, f"Check of ({number})")}</div>')

    def render_said(self, part):
        return html_block(self.format_check_tick(part, "Check of the formulas in the text above"))

    def format_check_tick(self, part, description):
        """Return a tick that shows the code of a check and its result on a click."""
        close = self.closes[part.given]
        times = f"{close.count} comparison" + "s" * (close.count != 1)
        found = f"worst difference {close.worst:.0e}" if close.worst else "equal to the last bit"
        return make_folded_block(f'<span title="{description}" aria-label="{description}">✓</span>',
                         f"<p>{description}: {times}, {found}</p>{format_code_block(part.code)}",
                                 "check tick")

    def render_index(self, part):
        """Return index entries for the words with which a student may search for this chapter."""
        return "\n".join(f"```{{index}} ! {' '.join(word.split())}\n```"
                         for word in part.body.split(","))

    def render_source(self, part):
        found = sources.make_cited_listing(self.chapter, part)
        rows = "".join(self.format_statement(part, line) for line in found.lines)
        file = found.module.replace(".", "/") + ".py"
        return html_block(
            f'<div class="source highlight" role="group" aria-label="{found.name}">'
            f'<p class="where"><code>{found.name}</code> '
            f'<a href="../source/{found.module}.html#line-{found.first}">{file}</a></p>'
            f'<pre class="head">{colour_code(found.head)}</pre>{rows}</div>')

    def format_statement(self, part, line):
        """Return HTML of a statement, its formula, and the equations that it implements."""
        code = "".join(map(format_hanging_line, line.code.split("\n")))
        if not line.cited:
            return f'<div class="row alone"><div class="code">{code}</div></div>'
        node, formula = line.statement.node, ""
        links = ", ".join(self.format_link(part.line, label) for label in line.cited)
        if line.statement.is_simple and len(maths.format_formula(node)) < WIDE:
            formula = f'<span class="formula">{maths.format_html_formula(node)}</span>'
        return (f'<div class="row"><div class="code">{code}</div><div class="beside">{formula}'
                f'<span class="origin">from {links}</span></div></div>')

    def render_proof(self, part):
        return layers.make_check_table(part.given.split())

    def render_mistakes(self, part):
        made = []
        for mistake in try_mistakes(self.chapter, part, self.space):
            change = (f'<div class="highlight"><pre class="change">'
                      f"<del>{colour_code(mistake.was)}</del><ins>{colour_code(mistake.now)}</ins>"
                      f"</pre></div>")
            shown = f"<pre>{escape(mistake.said)}</pre>"
            said = format_code_block(mistake.asked) + shown if mistake.asked else make_folded_block(
                "What <code>blame</code> says", shown, "blame", is_open=not made)
            why, other = (f"<p>{self.format_inline(text)}</p>" if text else ""
                          for text in (mistake.why, mistake.other))
            made.append(f'<div class="mistake">{change}{why}{said}{other}</div>')
        return html_block("".join(made))

    def format_inline(self, text):
        """Return text as HTML, with `code` and citations."""
        pieces = CITED.split(text)                      # words, a label, words, a label, words
        return "".join(self.format_link(1, piece) if n % 2 else text_to_html(piece)
                       for n, piece in enumerate(pieces))

    def render_questions(self, part):
        return html_block("\n".join(
            make_folded_block(f"<b>{full}</b> {escape(title)}", body, "question")
            for number in part.given.split() for full, title, body in solve_question(number)))


def format_code_block(code):
    """Return code as an HTML block."""
    return f'<div class="highlight"><pre>{colour_code(code)}</pre></div>'


def format_hanging_line(line):
    """Return a line of code as HTML that indents by four more if a narrow page breaks it."""
    indent = len(line) - len(line.lstrip()) + 4
    return (f'<pre style="padding-left: {indent}ch; text-indent: -{indent}ch">'
            f'{colour_code(re.sub(" {3,}#", "  #", line))}</pre>')
