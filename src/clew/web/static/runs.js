// The table of runs, and the curves of the chosen ones, refreshed while they train.

import { getJSON } from "./api.js";
import { lineChart } from "./chart.js";
import { html } from "./panel.js";

const REFRESH_MILLISECONDS = 5000;
const MAX_CHOSEN = 6;
const chosen = new Set();
let known = "";

const percent = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(1)} %`);

function row(run) {
  const box = html("input", { type: "checkbox", "aria-label": `Show curves of ${run.name}` });
  box.checked = chosen.has(run.name);
  box.addEventListener("change", () => {
    if (box.checked && chosen.size >= MAX_CHOSEN) { box.checked = false; return; }
    if (box.checked) chosen.add(run.name); else chosen.delete(run.name);
    drawCharts();
  });
  const cells = [box, run.name, run.model, run.objective, run.mazes, (run.parameters ?? "").toLocaleString(), run.progress, run.loss?.toFixed(4) ?? "", percent(run.exact)];
  return html("tr", {}, ...cells.map((cell) => html("td", {}, cell)));
}

async function refresh() {
  const { folder, runs } = await getJSON("/api/runs");
  const text = JSON.stringify(runs);
  if (text === known) return;
  if (!known && runs.length) chosen.add(runs[0].name);
  known = text;
  if (!runs.length) {
    document.getElementById("message").textContent = folder ? `There are no runs in ${folder} yet.` : "No folder of runs was given; start the page with `clew serve --runs DIR`.";
    return;
  }
  const head = ["", "run", "model", "objective", "mazes", "parameters", "progress", "loss", "held-out exact"];
  document.getElementById("runs").replaceChildren(html("thead", {}, html("tr", {}, ...head.map((word) => html("th", { scope: "col" }, word)))), html("tbody", {}, ...runs.map(row)));
  await drawCharts();
}

async function drawCharts() {
  const names = [...chosen];
  const all = await Promise.all(names.map((name) => getJSON(`/api/runs/${encodeURIComponent(name)}`)));
  const charts = [["loss", "Training loss", "loss"], ["exact", "Held-out exact paths", "share exact"]].map(([key, title, yLabel]) => {
    const series = all.map((run, index) => ({ name: names[index], points: run.curves[key] }));
    return html("figure", {}, html("figcaption", {}, title), lineChart(series, { xLabel: "mazes seen", yLabel, title: `${title} of ${names.join(", ")}` }));
  });
  document.getElementById("charts").replaceChildren(...charts);
  document.getElementById("config").replaceChildren(...all.map((run, index) =>
    html("details", {}, html("summary", {}, `Config of ${names[index]}`), html("pre", { tabindex: "0" }, JSON.stringify(run.config, null, 2)))));
}

async function loop() {
  try {
    await refresh();
    document.getElementById("message").textContent ||= "";
  } catch (error) {
    document.getElementById("message").textContent = error.message;
  }
  setTimeout(loop, REFRESH_MILLISECONDS);
}

loop();
