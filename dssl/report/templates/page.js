"use strict";
const folds = [...document.querySelectorAll("details")];
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) {
    target.querySelectorAll(":scope > details").forEach(fold => { fold.open = true; });
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
let closed = [];
addEventListener("beforeprint", () => {
  closed = folds.filter(fold => !fold.open);
  closed.forEach(fold => { fold.open = true; });
});
addEventListener("afterprint", () => closed.forEach(fold => { fold.open = false; }));
// A number stays beside its sign of per cent, and p beside its value.
document.querySelectorAll("p, td, td span, li, figcaption").forEach(text => text.childNodes.forEach(node => {
  if (node.nodeType !== Node.TEXT_NODE) return;
  node.data = node.data.replace(/(\d) %/g, "$1\u00a0%").replace(/\bp ([=<]) /g, "p\u00a0$1\u00a0");
}));
document.querySelectorAll("nav a").forEach(link => link.addEventListener("click", () => setTimeout(openTarget)));
openTarget();

// The first number of a cell, in seconds or bytes where it has such a unit; words where there is none.
const SIZES = {B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12}, SECONDS = {s: 1, min: 60, h: 3600};
function valueOf(cell) {
  const text = cell.textContent.trim().replaceAll(",", "").replaceAll("−", "-");
  const times = [...text.matchAll(/([\d.]+) (h|min|s)\b/g)];
  if (times.length) return times.reduce((sum, part) => sum + part[1] * SECONDS[part[2]], 0);
  const found = text.match(/[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?: ([kMGT]?B)\b)?/);
  return found ? parseFloat(found[0]) * (SIZES[found[1]] ?? 1) : null;
}
function sortBy(head, column) {
  const body = head.closest("table").tBodies[0], cellOf = row => row.cells[column];
  const down = head.getAttribute("aria-sort") === "ascending", numeric = head.classList.contains("number");
  head.parentNode.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const compare = (one, other) => numeric ? valueOf(cellOf(one)) - valueOf(cellOf(other))
    : cellOf(one).textContent.localeCompare(cellOf(other).textContent, undefined, {numeric: true});
  const rows = [...body.rows], lacks = row => numeric && valueOf(cellOf(row)) === null;
  const sorted = rows.filter(row => !lacks(row)).sort((one, other) => down ? compare(other, one) : compare(one, other));
  body.append(...sorted, ...rows.filter(lacks));
}
document.querySelectorAll("thead").forEach(thead => {
  if (thead.closest("table").tBodies[0].rows.length < 3) return;
  [...thead.rows[0].cells].forEach((head, column) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(head, column));
    head.append(button);
  });
});
