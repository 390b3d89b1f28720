"""One self-contained HTML page of sections: no script, nothing fetched, so it opens offline and prints.

The page is a function of its arguments: equal ones give an equal file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .markup import Html, joined, tag

Level = Literal["good", "note", "warning"]
LEVEL_WORDS: dict[Level, str] = {"good": "fine", "note": "note", "warning": "look here"}
CSS = """
:root { color-scheme: light }
body { margin: 0 auto; max-width: 58rem; padding: 1.5rem 1.25rem 4rem; background: #fff; color: #1f2933;
  font: .94rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif }
h1 { font-size: 1.7rem; margin: 0 } h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid #dde2e7 } h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
p { margin: .5rem 0; max-width: 46rem } .sub, .small, figcaption { color: #5b6773; font-size: .87rem }
nav { font-size: .87rem; margin: .6rem 0 } nav a { color: #1c64b0; margin-right: .9rem; white-space: nowrap }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem 1rem .32rem 0; border-bottom: 1px solid #e6eaee;
  overflow-wrap: break-word } th { font-weight: 600; color: #5b6773; border-color: #c3cad2; vertical-align: bottom }
td.number { white-space: nowrap } .number { text-align: right; font-variant-numeric: tabular-nums }
.box { border-left: 5px solid; border-radius: 3px; padding: .7rem 1rem; margin: 1rem 0 }
.box p { max-width: none } .box p:first-child { margin-top: 0 } .box p:last-child { margin-bottom: 0 }
.answer { font-size: 1.15rem; font-weight: 600; line-height: 1.4 }
.box.good { background: #eef8f1; border-color: #2c8a4b } .box.note { background: #f3f5f8; border-color: #7b8794 }
.box.warning { background: #fff5e8; border-color: #d2790f }
.state { border-radius: 9px; padding: .08rem .55rem; font-size: .8rem; white-space: nowrap }
.state.good { background: #dff1e4; color: #1d6b37 } .state.note { background: #e7ebef; color: #465461 }
.state.warning { background: #ffe2b8; color: #874600; font-weight: 600 }
meter { width: 6rem; vertical-align: middle }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto; display: block }
pre { background: #f6f8fa; padding: .8rem 1rem; overflow-x: auto; font-size: .83rem; white-space: pre-wrap;
  overflow-wrap: anywhere } code { font-size: .85em; overflow-wrap: anywhere }
@media print { html { font-size: 11.5px } body { max-width: none; padding: 0 } nav { display: none }
  h2, h3 { break-after: avoid } figure, .box, tr { break-inside: avoid }
  .box, .state, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""


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


def page(title: str, run: str, sections: Iterable[Section | None]) -> Html:
    """Return the page as one HTML text; sections that are None are left out."""
    shown = [section for section in sections if section is not None]
    style = Html(CSS)  # a literal of this file
    head = joined((Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
                   tag("title", f"{title}: report"), tag("style", style)))
    body = tag("body", tag("h1", title), tag("p", f"Run {run}", class_="sub"),
               tag("nav", *(tag("a", section.title, href=f"#{section.key}") for section in shown)),
               *(tag("section", tag("h2", section.title), section.html, id=section.key) for section in shown))
    return Html(f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n')
