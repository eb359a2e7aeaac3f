// The maze that is shown and edited. Open sides of a cell: 1 north, 2 south, 4 west, 8 east; 16 is a wall cell.
// Cells are [x, y]. Nothing here computes a path.

export const NORTH = 1, SOUTH = 2, WEST = 4, EAST = 8, WALL = 16;
const MOVES = { [NORTH]: [0, -1, SOUTH], [SOUTH]: [0, 1, NORTH], [WEST]: [-1, 0, EAST], [EAST]: [1, 0, WEST] };

export class Maze {
  constructor(json) {
    this.json = json;
    this.isGraph = Array.isArray(json.edges);
    if (this.isGraph) return;
    this.height = json.height;
    this.width = json.width;
    this.cells = json.cells.map((row) => row.slice());
    this.start = json.start;
    this.goal = json.goal;
  }

  toJSON() {
    if (this.isGraph) return this.json;
    return { height: this.height, width: this.width, start: this.start, goal: this.goal, cells: this.cells };
  }

  copy() {
    return new Maze(JSON.parse(JSON.stringify(this)));
  }

  contains([x, y]) {
    return x >= 0 && y >= 0 && x < this.width && y < this.height;
  }

  isWall([x, y]) {
    return (this.cells[y][x] & WALL) !== 0;
  }

  isOpen([x, y], side) {
    return (this.cells[y][x] & side) !== 0;
  }

  neighbour([x, y], side) {
    const [dx, dy] = MOVES[side];
    return [x + dx, y + dy];
  }

  /** Open or close the wall on a side of a cell; false if that cannot be done. */
  toggleSide(cell, side) {
    const other = this.neighbour(cell, side);
    if (!this.contains(cell) || !this.contains(other) || this.isWall(cell) || this.isWall(other)) return false;
    this.cells[cell[1]][cell[0]] ^= side;
    this.cells[other[1]][other[0]] ^= MOVES[side][2];
    return true;
  }

  /** Make a cell a wall, or a wall cell free and open to its free neighbours. Start and goal stay free. */
  toggleWall(cell) {
    if (!this.contains(cell) || same(cell, this.start) || same(cell, this.goal)) return false;
    const fill = !this.isWall(cell);
    this.cells[cell[1]][cell[0]] = fill ? WALL : 0;
    for (const side of [NORTH, SOUTH, WEST, EAST]) {
      const other = this.neighbour(cell, side);
      if (!this.contains(other) || this.isWall(other)) continue;
      const back = MOVES[side][2];
      if (fill) {
        this.cells[other[1]][other[0]] &= ~back;
      } else {
        this.cells[cell[1]][cell[0]] |= side;
        this.cells[other[1]][other[0]] |= back;
      }
    }
    return true;
  }

  /** Move the start or the goal to a free cell. */
  moveEnd(name, cell) {
    if (!this.contains(cell) || this.isWall(cell) || same(cell, this.start) || same(cell, this.goal)) return false;
    this[name] = cell;
    return true;
  }
}

export function same(a, b) {
  return a[0] === b[0] && a[1] === b[1];
}

/** The state of the page as text for a link, and back. */
export function encodeState(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function decodeState(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}
