// The paper's tables and figures beside ours, as they stand in results/.

import { getJSON } from "./api.js";
import { html } from "./panel.js";

const KINDS = { reproduced: "good", contradicted: "bad", inconclusive: "warn" };
const badge = (words, kind) => html("span", { class: `badge ${kind || ""}` }, words);
const verdict = (each) => [badge(each.verdict, KINDS[each.verdict]), each.text];

function table({ title, rows }) {
  const [head, ...body] = rows;
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, html("table", {},
    html("caption", {}, title),
    html("thead", {}, html("tr", {}, ...head.map((word) => html("th", { scope: "col" }, String(word))))),
    html("tbody", {}, ...body.map((cells) => html("tr", {}, ...cells.map((cell) => html("td", {}, String(cell))))))));
}

function study(each) {
  const state = each.state === "measured" ? [] : [html("p", {}, badge(each.state), "Run it: ", html("code", {}, each.command))];
  return html("section", { class: "card" }, html("h2", {}, each.title), html("p", {}, each.question), html("p", { class: "small" }, `The paper: ${each.paper}`), ...state,
    ...each.findings.map((finding) => html("p", {}, ...verdict(finding))), ...each.tables.map(table),
    ...(each.picture ? [html("figure", {}, html("img", { src: each.picture, alt: `Figure of ${each.title}`, loading: "lazy" }))] : []));
}

function show({ folder, shipped, claims, studies }) {
  const measured = studies.some((each) => each.state !== "not run yet");
  document.getElementById("message").textContent = measured ? "" : `There are no results in ${folder} yet; start the page with \`clew serve --results DIR\`.`;
  const parts = [];
  if (shipped.length) parts.push(html("section", { class: "card" }, html("h2", {}, "Shipped models on held-out mazes"), table({ title: "Accuracy by size, beside the paper's MLM-U models of 8M parameters", rows: shipped })));
  parts.push(html("section", { class: "card" }, html("h2", {}, "The paper's main claims"), html("ol", { class: "claims" }, ...claims.map((claim) => html("li", {}, ...verdict(claim))))));
  document.getElementById("results").replaceChildren(...parts, ...studies.map(study));
}

getJSON("/api/results").then(show, (error) => { document.getElementById("message").textContent = error.message; });
