"""One self-contained HTML page of sections: no script, nothing fetched, so it opens offline and prints.

The page is a function of its arguments: equal ones give an equal file. It follows the reader's choice of a light or a
dark page, and fits a telephone as well as a wide screen.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .colors import DARK, LIGHT
from .markup import Html, joined, tag

Level = Literal["good", "note", "warning"]
LEVEL_WORDS: dict[Level, str] = {"good": "fine", "note": "note", "warning": "look here"}
CSS = """
:root { color-scheme: light dark; %(light)s }
@media (prefers-color-scheme: dark) { :root { %(dark)s } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: .94rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; overflow-wrap: break-word;
  -webkit-text-size-adjust: 100%% }
h1 { font-size: 1.7rem; margin: 0 } h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--rule) } h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
p { margin: .5rem 0; max-width: 46rem } .sub, .small, figcaption { color: var(--muted); font-size: .87rem }
a { color: var(--link) } nav { font-size: .87rem; margin: .6rem 0 } nav a { margin-right: .9rem; white-space: nowrap }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem 1rem .32rem 0; border-bottom: 1px solid var(--rule) }
th { font-weight: 600; color: var(--muted); border-color: var(--frame); vertical-align: bottom }
td.number { white-space: nowrap } .number { text-align: right; font-variant-numeric: tabular-nums }
.box { border-left: 5px solid; border-radius: 3px; padding: .7rem 1rem; margin: 1rem 0 }
.box p { max-width: none } .box p:first-child { margin-top: 0 } .box p:last-child { margin-bottom: 0 }
.answer { font-size: 1.15rem; font-weight: 600; line-height: 1.4 }
.box.good { background: var(--good-paper); border-color: var(--good) }
.box.note { background: var(--note-paper); border-color: var(--base) }
.box.warning { background: var(--warning-paper); border-color: var(--wrong) }
.state { border-radius: 9px; padding: .08rem .55rem; font-size: .8rem; white-space: nowrap }
.state.good { background: var(--good-paper); color: var(--good-ink) }
.state.note { background: var(--note-paper); color: var(--muted) }
.state.warning { background: var(--warning-paper); color: var(--warning-ink); font-weight: 600 }
.bar { display: block; width: 6rem; height: .55rem; margin-top: .45rem; background: var(--note-paper) }
.bar i { display: block; height: 100%%; background: var(--model) }
figure { margin: 1rem 0 } figure svg { max-width: 100%%; height: auto; display: block }
pre { background: var(--note-paper); padding: .8rem 1rem; overflow-x: auto; font-size: .83rem; white-space: pre-wrap;
  overflow-wrap: anywhere } code { font-size: .85em; overflow-wrap: anywhere }
@media (max-width: 34rem) { body { padding: 1rem .9rem 3rem } h1 { font-size: 1.4rem } nav a { line-height: 1.9 }
  .answer { font-size: 1.05rem } .box { padding: .6rem .75rem } th, td { padding-right: .7rem } }
@media screen and (min-width: 82rem) { body { max-width: 78rem; display: grid; grid-template-columns: 13rem 1fr;
  column-gap: 3rem } header, main { grid-column: 2; min-width: 0 } nav { grid-column: 1; grid-row: 1 / 3;
  position: sticky; top: 1.5rem; align-self: start } nav a { display: block; margin: 0 0 .45rem; white-space: normal }
  main section:first-child h2 { margin-top: 1rem } }
@media print { :root { %(light)s } html { font-size: 11.5px } body { max-width: none; padding: 0 }
  nav { display: none } h2, h3 { break-after: avoid } figure, .box, tr { break-inside: avoid }
  .box, .state, pre, .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
""" % {mode: "; ".join(f"--{name}: {color}" for name, color in colors.items())
       for mode, colors in (("light", LIGHT), ("dark", DARK))}


@dataclass(frozen=True)
class Section:
    """A part of a page; None of a function that would make one is nothing to say. key : a word, what links point at."""

    key: str
    title: str
    html: Html


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its figures, whether it is fine, and what that means."""

    subject: str
    figures: str
    level: Level
    meaning: str


def state(level: Level) -> Html:
    """Return a level as a colored word."""
    return tag("span", LEVEL_WORDS[level], class_=f"state {level}")


def warning_box(found: Sequence[Finding], explained: bool = True) -> Html:
    """Return a box of the findings that ask for attention; nothing where there are none."""
    if not found:
        return Html("")
    return tag("div", *(tag("p", tag("b", f"{item.subject}: "), item.figures,
                            f". {item.meaning}" if explained else "") for item in found), class_="box warning")


class Reported(Protocol):
    """A step with a section of the page, from the attributes of all steps by name and the result; or without one."""

    @property
    def section(self) -> Callable[[dict[str, Any], dict[str, Any]], Section | None] | None: ...

    @property
    def leads(self) -> bool: ...


def leading_and_following(steps: Sequence[Reported]) -> tuple[list[Any], list[Any]]:
    """Return the sections that lead the page, those of the last steps first, and the others in the order of the steps.
    """
    return ([step.section for step in reversed(steps) if step.section and step.leads],
            [step.section for step in steps if step.section and not step.leads])


def page(title: str, of: str, sections: Iterable[Section | None]) -> Html:
    """Return the page as one HTML text; sections that are None are left out.

    of : what it is of, below the title.
    """
    shown = [section for section in sections if section is not None]
    style = Html(CSS)  # a literal of this file
    head = joined((Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
                   tag("title", f"{title}: report"), tag("style", style)))
    body = tag("body", tag("header", tag("h1", title), tag("p", of, class_="sub")),
               tag("nav", *(tag("a", section.title, href=f"#{section.key}") for section in shown)),
               tag("main", *(tag("section", tag("h2", section.title), section.html, id=section.key)
                             for section in shown)))
    return Html(f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n')
