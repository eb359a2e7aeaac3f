// The paper's tables and figures beside ours, as they stand in results/.

import { getJSON } from "./api.js";
import { html } from "./panel.js";

const KINDS = { reproduced: "good", contradicted: "bad", inconclusive: "warn" };
const badge = (words, kind) => html("span", { class: `badge ${kind || ""}` }, words);
const verdict = (word, text) => [badge(word, KINDS[word]), text];
// The paper's MLM-U models of 8M parameters: exact %, by family and size.
const PAPER_EXACT = {
  dfs: { "5x5": "100", "10x10": "100", "15x15": "100", "20x20": "100", "30x30": "93.8" },
  astar: { "10x10": "98.5", "20x20": "95.2", "30x30": "85.5" },
};

/** The accuracy of the shipped models, with a head; of mazes that the paper does not have, of the first decoder. */
function shippedRows(shipped) {
  const rows = [["model", "mazes", "decoder", "exact, % (95 %)", "the paper, exact %", "valid and shortest, %", "passes"]];
  const percent = (share) => (100 * share).toFixed(1);
  for (const [name, reports] of Object.entries(shipped)) {
    for (const report of reports) {
      const words = report.mazes.split(" "); // 2,000 held-out dfs mazes of 5x5
      const [size, family] = [words.at(-1), words.at(-4)];
      const paper = PAPER_EXACT[family]?.[size] || "";
      for (const { mazes, decoder, exact, shortest, passes } of paper ? report.evaluations : report.evaluations.slice(0, 1)) {
        const interval = `${percent(exact.share)} (${percent(exact.low)} to ${percent(exact.high)})`;
        rows.push([name, `${mazes.toLocaleString("en")} of ${size}`, decoder, interval, paper, percent(shortest.share), passes.toFixed(1)]);
      }
    }
  }
  return rows;
}

function table({ title, rows }) {
  const [head, ...body] = rows;
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, html("table", {},
    html("caption", {}, title),
    html("thead", {}, html("tr", {}, ...head.map((word) => html("th", { scope: "col" }, String(word))))),
    html("tbody", {}, ...body.map((cells) => html("tr", {}, ...cells.map((cell) => html("td", {}, String(cell))))))));
}

function study(each) {
  const state = each.state === "measured" ? [] : [html("p", {}, badge(each.state), "Run it: ", html("code", {}, `clew reproduce ${each.name} --scale laptop`))];
  return html("section", { class: "card" }, html("h2", {}, each.title), html("p", {}, each.question), html("p", { class: "small" }, `The paper: ${each.paper}`), ...state,
    ...each.findings.map((finding) => html("p", {}, ...verdict(finding.verdict, `${finding.text}. ${finding.because}`))), ...each.tables.map(table),
    ...(each.has_picture ? [html("figure", {}, html("img", { src: `/api/results/${each.name}.png`, alt: `Figure of ${each.title}`, loading: "lazy" }))] : []));
}

function show({ folder, shipped, claims, studies }) {
  const measured = studies.some((each) => each.state !== "not run yet");
  document.getElementById("message").textContent = measured ? "" : `There are no results in ${folder} yet; start the page with \`clew serve --results DIR\`.`;
  const parts = [];
  if (Object.keys(shipped).length) parts.push(html("section", { class: "card" }, html("h2", {}, "Shipped models on held-out mazes"), table({ title: "Accuracy by size, beside the paper's MLM-U models of 8M parameters", rows: shippedRows(shipped) })));
  parts.push(html("section", { class: "card" }, html("h2", {}, "The paper's main claims"), html("ol", { class: "claims" }, ...claims.map((claim) => html("li", {}, ...verdict(claim.verdict, `${claim.text} (the paper, ${claim.paper})`))))));
  document.getElementById("results").replaceChildren(...parts, ...studies.map(study));
}

getJSON("/api/results").then(show, (error) => { document.getElementById("message").textContent = error.message; });
