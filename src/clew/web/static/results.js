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
  if (!each.converged) parts.push(html("p", {}, "No run of this study has converged yet."));
  for (const finding of each.findings) parts.push(html("p", {}, html("strong", {}, finding.verdict), `: ${finding.text}`));
  parts.push(...each.tables.map(table));
  if (each.picture) parts.push(html("figure", {}, html("img", { src: each.picture, alt: `Figure of ${each.title}`, loading: "lazy" })));
  return html("section", {}, ...parts);
}

function claims(list) {
  const lines = list.map((claim) => html("li", {}, html("strong", {}, claim.verdict), `: ${claim.text}`));
  return html("section", {}, html("h2", {}, "The paper's main claims"), html("ol", {}, ...lines));
}

getJSON("/api/results").then((found) => {
  document.getElementById("message").textContent = found.studies.length ? "" : `There are no results in ${found.folder}.`;
  document.getElementById("results").replaceChildren(claims(found.claims), ...found.studies.map(study));
}, (error) => { document.getElementById("message").textContent = error.message; });
