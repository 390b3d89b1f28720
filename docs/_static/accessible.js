// What the themes leave out: tables that scroll can be reached by key, cells of sentences are wide enough, and links and
// folds have names.
document.addEventListener("DOMContentLoaded", () => {
  const reach = () => {
    for (const table of document.querySelectorAll(".bd-article table")) {
      if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
      else table.removeAttribute("tabindex");
    }
  };
  for (const cell of document.querySelectorAll(".bd-article td")) {
    const text = cell.textContent.trim();
    if (text.length > 60) cell.classList.add("sentences");
    else if (/^[+−-]?\d/.test(text) && text.length <= 30) cell.classList.add("figures");
  }
  reach();
  addEventListener("resize", reach);
  for (const fold of document.querySelectorAll("summary:has(.toctree-toggle)")) {
    fold.setAttribute("aria-label", "pages below");
  }
  for (const button of document.querySelectorAll("button.search-button-field")) {
    button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " "));
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    const title = link.closest(".sphx-glr-thumbcontainer").querySelector(".sphx-glr-thumbnail-title");
    link.setAttribute("aria-label", title ? title.textContent : link.textContent);
  }
});
