// A line chart as SVG.

import { element } from "./view.js";

const COLOURS = ["#1f4e79", "#c62828", "#1a7f37", "#b35900", "#6a1b9a", "#00695c"];
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 320, 56, 44, 16, 16];

/** `series`: [{name, points: [[x, y], ...]}]. */
export function lineChart(series, { xLabel, yLabel, title }) {
  const points = series.flatMap((each) => each.points);
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 20 * series.length}`, class: "chart", role: "img", "aria-label": title });
  if (!points.length) {
    svg.append(element("text", { x: LEFT, y: HEIGHT / 2, "font-size": 14 }, "No measurements yet."));
    return svg;
  }
  const xMax = Math.max(...points.map(([x]) => x)) || 1;
  const yMax = Math.max(...points.map(([, y]) => y)) || 1;
  const place = ([x, y]) => [LEFT + (x / xMax) * (WIDTH - LEFT - RIGHT), TOP + (1 - y / yMax) * (HEIGHT - TOP - BOTTOM)];
  for (let i = 0; i <= 4; i++) {
    const [x, y] = place([(xMax * i) / 4, (yMax * i) / 4]);
    svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, stroke: "#c9ced6" }));
    svg.append(element("text", { x: LEFT - 6, y: y + 4, "font-size": 12, "text-anchor": "end" }, short((yMax * i) / 4)));
    svg.append(element("text", { x, y: HEIGHT - BOTTOM + 18, "font-size": 12, "text-anchor": "middle" }, short((xMax * i) / 4)));
  }
  svg.append(element("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "font-size": 13, "text-anchor": "middle" }, xLabel));
  svg.append(element("text", { x: 14, y: TOP, "font-size": 13, transform: `rotate(-90 14 ${HEIGHT / 2 - 20})`, "text-anchor": "middle", dy: HEIGHT / 2 - 36 }, yLabel));
  series.forEach(({ name, points: some }, index) => {
    const colour = COLOURS[index % COLOURS.length];
    svg.append(element("polyline", { points: some.map((point) => place(point).map((v) => v.toFixed(1)).join(",")).join(" "), fill: "none", stroke: colour, "stroke-width": 2 }));
    svg.append(element("text", { x: LEFT, y: HEIGHT + 14 + 20 * index, "font-size": 13, fill: colour }, name));
  });
  return svg;
}

function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}
