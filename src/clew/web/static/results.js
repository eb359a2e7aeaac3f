// The paper's tables and figures beside ours, as they stand in results/.

import { getJSON } from "./api.js";
import { html } from "./panel.js";

function table({ title, rows }) {
  const [head, ...body] = rows;
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, html("table", {},
    html("caption", {}, title),
    html("thead", {}, html("tr", {}, ...head.map((word) => html("th", { scope: "col" }, String(word))))),
    html("tbody", {}, ...body.map((cells) => html("tr", {}, ...cells.map((cell) => html("td", {}, String(cell))))))));
}

function study(each) {
  const parts = [html("h2", {}, each.title), html("p", {}, each.question), html("p", { class: "small" }, `The paper: ${each.paper}`)];
  for (const finding of each.findings) parts.push(html("p", {}, html("strong", {}, finding.verdict), `: ${finding.text}`));
  parts.push(...each.tables.map(table));
  if (each.picture) parts.push(html("figure", {}, html("img", { src: each.picture, alt: `Figure of ${each.title}`, loading: "lazy" })));
  return html("section", {}, ...parts);
}

getJSON("/api/results").then(({ folder, studies, models }) => {
  document.getElementById("message").textContent = studies.length || models.length ? "" : `There are no results in ${folder}.`;
  document.getElementById("results").replaceChildren(...models.map(table), ...studies.map(study));
}, (error) => { document.getElementById("message").textContent = error.message; });
