"""The style sheet of the HTML pages: quiet, narrow enough to read, light or dark as the reader has it."""

STYLE = """
:root { color-scheme: light dark; --ground: #fbfaf7; --card: #ffffff; --ink: #22262b; --quiet: #6b7280;
  --line: #e3e2dc; --accent: #b3202c; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181c; --card: #1f2228; --ink: #e8e6e1; --quiet: #9aa1ac;
  --line: #343842; --accent: #ff7a85; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid var(--accent); padding-bottom: 0.75rem; margin-bottom: 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 0.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 0.5rem; }
header p { margin: 0.2rem 0; color: var(--quiet); }
.quiet, .note, footer { color: var(--quiet); font-weight: 400; }
.note { font-size: 0.875rem; margin: 0.5rem 0; }
footer { margin-top: 3rem; font-size: 0.875rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; margin: 0.75rem 0 0;
  font-size: 0.9rem; }
.swatch { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.45em; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.925rem; }
th, td { text-align: right; padding: 0.55rem 0.8rem; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
th { font-weight: 600; color: var(--quiet); font-size: 0.8rem; border-bottom: 1px solid var(--line); }
tr + tr td { border-top: 1px solid var(--line); }
td small { display: block; color: var(--quiet); font-size: 0.75rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 1rem;
  margin-top: 1.5rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.9rem; }
figcaption { font-size: 0.875rem; color: var(--quiet); }
.charts figcaption { font-weight: 600; color: var(--ink); margin-bottom: 0.4rem; min-height: 2.6em; }
.chart { width: 100%; height: auto; display: block; }
.chart .grid { stroke: var(--line); fill: none; }
.chart .dashed { stroke-dasharray: 4 4; stroke: var(--quiet); }
.chart .axis { fill: var(--quiet); font-size: 11px; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; font-size: 0.9rem; }
dt { font-weight: 600; font-size: 0.9rem; margin-top: 0.5rem; }
dd { margin: 0; color: var(--quiet); font-size: 0.9rem; }
.chart .label { fill: var(--ink); font-size: 12px; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 1rem; }
.gallery svg { width: 100%; height: auto; display: block; border-radius: 4px; }
.gallery figcaption { text-align: center; margin-top: 0.5rem; }
"""
