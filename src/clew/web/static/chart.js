// A line chart as SVG.

import { element } from "./view.js";

const COLOURS = ["#1d4f91", "#c2410c", "#1a7f37", "#7b3fb5", "#b3202c", "#00695c"];
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [560, 300, 52, 44, 14, 14];

/** `series`: [{name, points: [[x, y], ...]}]. */
export function lineChart(series, { xLabel, title, yMax = null }) {
  const points = series.flatMap((each) => each.points);
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 20 * series.length}`, class: "chart", role: "img", "aria-label": title });
  if (!points.length) {
    svg.append(element("text", { x: LEFT, y: HEIGHT / 2, "font-size": 14, fill: "#55606d" }, "No measurements yet."));
    return svg;
  }
  const xMax = Math.max(...points.map(([x]) => x)) || 1;
  const yTop = yMax ?? (Math.max(...points.map(([, y]) => y)) || 1);
  const toPixels = ([x, y]) => [LEFT + (x / xMax) * (WIDTH - LEFT - RIGHT), TOP + (1 - y / yTop) * (HEIGHT - TOP - BOTTOM)];
  for (let i = 0; i <= 4; i++) {
    const [x, y] = toPixels([(xMax * i) / 4, (yTop * i) / 4]);
    svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, stroke: "#dde2e8" }));
    svg.append(element("text", { x: LEFT - 6, y: y + 4, "font-size": 12, "text-anchor": "end" }, short((yTop * i) / 4)));
    svg.append(element("text", { x, y: HEIGHT - BOTTOM + 18, "font-size": 12, "text-anchor": "middle" }, short((xMax * i) / 4)));
  }
  svg.append(element("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 8, "font-size": 13, "text-anchor": "middle" }, xLabel));
  series.forEach(({ name, points: some }, index) => {
    const colour = COLOURS[index % COLOURS.length];
    const at = some.map((point) => toPixels(point).map((value) => value.toFixed(1)));
    svg.append(element("polyline", { points: at.map((pair) => pair.join(",")).join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" }));
    if (at.length < 30) svg.append(...at.map(([cx, cy]) => element("circle", { cx, cy, r: 3, fill: colour })));
    svg.append(element("text", { x: LEFT, y: HEIGHT + 14 + 20 * index, "font-size": 13, fill: colour }, name));
  });
  return svg;
}

function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}
