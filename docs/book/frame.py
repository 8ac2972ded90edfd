"""What every chapter has beside its text: a picture, step pages, a notebook."""

from docs.book.markup import fold, raw
from docs.book.pictures import PICTURES
from npdl_study.check.samples import layer_classes, sample
from npdl_study.step.show_html import page
from npdl_study.step.step import step

EMBEDDED = 3                    # step pages in the chapter itself; the others are linked


def picture(chapter):
    """The chapter's picture, where it has one."""
    draw = PICTURES.get(chapter.name)
    if draw is None:
        return ""
    svg, caption = draw()
    return raw(f'<figure class="picture">{svg}<figcaption>{caption}</figcaption></figure>')


def step_names(chapter):
    """The layers of the chapter that can be stepped through: those of its proof."""
    known = layer_classes()
    return [name for part in chapter.of("proof") for name in part.given.split() if name in known]


def step_page(name):
    """The page that steps through a layer of npdl, as `python -m npdl step NAME --html` has it."""
    layer, inputs, options = sample(layer_classes()[name])
    return page(step(layer, *inputs, title=name, **options))


def steps(names):
    """The step pages of some layers: the first few in a fold, the others linked."""
    if not names:
        return ""
    made = [fold(f"Step through <b>{name}</b>, line by line",
                 f'<iframe loading="lazy" title="{name}, line by line" '
                 f'src="../steps/{name}.html"></iframe>'
                 f'<p><a href="../steps/{name}.html">On a page of its own</a>; in a terminal: '
                 f"<code>python -m npdl step {name}</code></p>", "step")
            for name in names[:EMBEDDED]]
    more = ", ".join(f'<a href="../steps/{name}.html">{name}</a>' for name in names[EMBEDDED:])
    return raw("\n".join(made) + (f"<p>Step through: {more}.</p>" if more else ""))


def notebook(chapter):
    """Where the chapter's notebook is."""
    return raw(f'<p class="notebook"><a href="../notebooks/{chapter.name}.ipynb" download>The '
               "notebook of this chapter</a>: its text, its equations and their checks, to run "
               "and to change.</p>")
