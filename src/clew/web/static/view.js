// Draw a maze or a graph as SVG, with what a model has predicted, and turn pointer and key events into edits.

import { EAST, NORTH, SOUTH, WEST } from "./maze.js";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = { start: "#1a7f37", goal: "#b35900", path: "#c62828", on: "#1f6fc4", wall: "#3a3f45", exact: "#6a1b9a", cursor: "#f2a900" };
const MARGIN = 0.12;

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class MazeView {
  /** `edit(change)` is called with a function that changes the maze; `solve()` when Enter is pressed. */
  constructor(svg, { edit, solve }) {
    this.svg = svg;
    this.edit = edit;
    this.cursor = null;
    this.dragging = null;
    svg.classList.add("maze");
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.addEventListener("pointerdown", (event) => this.pointerDown(event));
    svg.addEventListener("pointermove", (event) => this.pointerMove(event));
    svg.addEventListener("pointerup", (event) => this.pointerUp(event));
    svg.addEventListener("pointercancel", () => { this.dragging = null; });
    svg.addEventListener("keydown", (event) => this.keyDown(event, solve));
    svg.addEventListener("blur", () => { this.cursor = null; this.drawCursor(); });
  }

  /** `shown`: {probabilities, committed: Map cell -> {order, probability}, path, exactPath}. */
  draw(maze, shown = {}) {
    this.maze = maze;
    this.svg.replaceChildren();
    if (maze.isGraph) this.drawGraph(shown);
    else this.drawMaze(shown);
  }

  drawMaze({ probabilities = null, committed = new Map(), path = null, exactPath = null }) {
    const { maze } = this;
    const { width, height } = maze;
    this.svg.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`);
    this.svg.setAttribute("aria-label", `Maze of ${height} rows and ${width} columns, start at row ${maze.start[1] + 1}, column ${maze.start[0] + 1}, ` +
      `goal at row ${maze.goal[1] + 1}, column ${maze.goal[0] + 1}. Arrow keys move the cursor.`);
    const cells = element("g");
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const box = { x, y, width: 1.01, height: 1.01 };
        if (maze.isWall([x, y])) {
          cells.append(element("rect", { ...box, fill: COLOURS.wall }));
          continue;
        }
        const committedCell = committed.get(`${x},${y}`);
        const probability = committedCell ? committedCell.probability : probabilities ? probabilities[y][x] : 0;
        if (probability > 0.005) {
          const rect = element("rect", { ...box, fill: committedCell ? COLOURS.path : COLOURS.on, "fill-opacity": (0.75 * probability).toFixed(3) });
          const words = committedCell
            ? `row ${y + 1}, column ${x + 1}: committed in pass ${committedCell.order}, probability ${probability.toFixed(3)}`
            : `row ${y + 1}, column ${x + 1}: probability ${probability.toFixed(3)}`;
          rect.append(element("title", {}, words));
          cells.append(rect);
        }
        if (committedCell && width <= 20 && height <= 20) {
          cells.append(element("text", { x: x + 0.08, y: y + 0.26, "font-size": 0.22, fill: "#1c1e21" }, String(committedCell.order)));
        }
      }
    }
    this.svg.append(cells);
    if (exactPath) this.svg.append(polyline(exactPath, { stroke: COLOURS.exact, "stroke-width": 0.16, "stroke-dasharray": "0.25 0.2" }));
    if (path) this.svg.append(polyline(path, { stroke: COLOURS.path, "stroke-width": 0.14 }));
    this.svg.append(this.walls(), this.marker("goal"), this.marker("start"));
    this.cursorMark = element("rect", { width: 0.9, height: 0.9, fill: "none", stroke: COLOURS.cursor, "stroke-width": 0.1, visibility: "hidden" });
    this.svg.append(this.cursorMark);
    this.drawCursor();
  }

  walls() {
    const { maze } = this;
    let lines = "";
    for (let y = 0; y < maze.height; y++) {
      for (let x = 0; x < maze.width; x++) {
        if (!maze.isOpen([x, y], NORTH)) lines += `M${x} ${y}h1`;
        if (!maze.isOpen([x, y], WEST)) lines += `M${x} ${y}v1`;
        if (y === maze.height - 1 && !maze.isOpen([x, y], SOUTH)) lines += `M${x} ${y + 1}h1`;
        if (x === maze.width - 1 && !maze.isOpen([x, y], EAST)) lines += `M${x + 1} ${y}v1`;
      }
    }
    return element("path", { d: lines, stroke: COLOURS.wall, "stroke-width": 0.08, fill: "none", "stroke-linecap": "square" });
  }

  marker(name) {
    const [x, y] = this.maze[name];
    const common = { fill: COLOURS[name], stroke: "#fff", "stroke-width": 0.06, "data-end": name };
    const shape = name === "start"
      ? element("circle", { cx: x + 0.5, cy: y + 0.5, r: 0.3, ...common })
      : element("rect", { x: x + 0.22, y: y + 0.22, width: 0.56, height: 0.56, ...common });
    shape.append(element("title", {}, name));
    return shape;
  }

  drawCursor() {
    if (!this.cursorMark) return;
    const visible = this.cursor && !this.maze.isGraph;
    this.cursorMark.setAttribute("visibility", visible ? "visible" : "hidden");
    if (visible) {
      this.cursorMark.setAttribute("x", this.cursor[0] + 0.05);
      this.cursorMark.setAttribute("y", this.cursor[1] + 0.05);
    }
  }

  /** Nodes on rays around the centre, each ray one arm; edges as they are listed. */
  drawGraph({ committed = new Map(), path = null, exactPath = null }) {
    const { edges, start, goal } = this.maze.json;
    const next = new Map();
    for (const [a, b] of edges) {
      next.set(a, [...(next.get(a) || []), b]);
      next.set(b, [...(next.get(b) || []), a]);
    }
    const place = new Map([[start, [0, 0]]]);
    const arms = next.get(start) || [];
    arms.forEach((first, arm) => {
      const angle = (2 * Math.PI * arm) / arms.length - Math.PI / 2;
      let [before, node, radius] = [start, first, 1.4];
      while (node !== undefined) {
        place.set(node, [radius * Math.cos(angle), radius * Math.sin(angle)]);
        const onward = (next.get(node) || []).filter((other) => other !== before && !place.has(other));
        [before, node, radius] = [node, onward[0], radius + 1.4];
      }
    });
    const reach = Math.max(...[...place.values()].map(([x, y]) => Math.hypot(x, y))) + 0.8;
    this.svg.setAttribute("viewBox", `${-reach} ${-reach} ${2 * reach} ${2 * reach}`);
    this.svg.setAttribute("aria-label", `Path-star graph with ${arms.length} arms, start node ${start}, goal node ${goal}.`);
    for (const [a, b] of edges) {
      if (!place.has(a) || !place.has(b)) continue;
      const [[x1, y1], [x2, y2]] = [place.get(a), place.get(b)];
      this.svg.append(element("line", { x1, y1, x2, y2, stroke: "#7b838d", "stroke-width": 0.06 }));
    }
    const line = (nodes, attributes) => polyline(nodes.filter((n) => place.has(n)).map((n) => place.get(n)), attributes, 0);
    if (exactPath) this.svg.append(line(exactPath, { stroke: COLOURS.exact, "stroke-width": 0.2, "stroke-dasharray": "0.25 0.2" }));
    if (path) this.svg.append(line(path, { stroke: COLOURS.path, "stroke-width": 0.16 }));
    for (const [node, [x, y]] of place) {
      const fill = node === start ? COLOURS.start : node === goal ? COLOURS.goal : committed.has(String(node)) ? COLOURS.path : "#fff";
      this.svg.append(element("circle", { cx: x, cy: y, r: 0.42, fill, stroke: COLOURS.wall, "stroke-width": 0.05 }));
      this.svg.append(element("text", { x, y: y + 0.14, "font-size": 0.4, "text-anchor": "middle", fill: fill === "#fff" ? "#1c1e21" : "#fff" }, String(node)));
    }
  }

  position(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  pointerDown(event) {
    if (this.maze.isGraph || event.button > 0) return;
    const [x, y] = this.position(event);
    const cell = [Math.floor(x), Math.floor(y)];
    const end = ["start", "goal"].find((name) => this.maze[name][0] === cell[0] && this.maze[name][1] === cell[1]);
    this.dragging = { end, from: cell, x, y, moved: false };
    this.svg.setPointerCapture(event.pointerId);
  }

  pointerMove(event) {
    if (!this.dragging) return;
    const [x, y] = this.position(event);
    if (Math.hypot(x - this.dragging.x, y - this.dragging.y) > 0.3) this.dragging.moved = true;
  }

  pointerUp(event) {
    const { dragging } = this;
    this.dragging = null;
    if (!dragging) return;
    const [x, y] = this.position(event);
    const cell = [Math.floor(x), Math.floor(y)];
    if (dragging.moved) {
      if (dragging.end) this.edit((maze) => maze.moveEnd(dragging.end, cell));
      return;
    }
    const [fx, fy] = [x - cell[0], y - cell[1]];
    const distances = [[fy, NORTH], [1 - fy, SOUTH], [fx, WEST], [1 - fx, EAST]].sort((a, b) => a[0] - b[0]);
    const [distance, side] = distances[0];
    if (distance < 0.25) this.edit((maze) => maze.toggleSide(cell, side));
    else this.edit((maze) => maze.toggleWall(cell));
  }

  keyDown(event, solve) {
    const sides = { ArrowUp: NORTH, ArrowDown: SOUTH, ArrowLeft: WEST, ArrowRight: EAST };
    if (event.key === "Enter") {
      event.preventDefault();
      solve();
      return;
    }
    if (this.maze.isGraph || event.ctrlKey || event.metaKey || event.altKey) return;
    this.cursor ||= this.maze.start.slice();
    const side = sides[event.key];
    const cell = this.cursor.slice();
    if (side && event.shiftKey) this.edit((maze) => maze.toggleSide(cell, side));
    else if (side) {
      const moved = this.maze.neighbour(cell, side);
      if (this.maze.contains(moved)) this.cursor = moved;
    } else if (event.key === " ") this.edit((maze) => maze.toggleWall(cell));
    else if (event.key === "s" || event.key === "S") this.edit((maze) => maze.moveEnd("start", cell));
    else if (event.key === "g" || event.key === "G") this.edit((maze) => maze.moveEnd("goal", cell));
    else return;
    event.preventDefault();
    this.drawCursor();
  }
}

function polyline(cells, attributes, offset = 0.5) {
  const points = cells.map(([x, y]) => `${x + offset},${y + offset}`).join(" ");
  return element("polyline", { points, fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round", ...attributes });
}
