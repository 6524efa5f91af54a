"""How pages look: light and dark, from a phone to paper."""

CSS = """
:root {
  color-scheme: light dark;
  --back: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #5b6675; --line: #dde2e8; --accent: #0b6e99;
  --d0: #cfead8; --d1: #e6f2d5; --d2: #fcefc4; --d3: #fbd9b8; --d4: #f6bfb4; --d5: #e9d3d8; --sure: #e4f1f7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12161c; --card: #1b2129; --ink: #e7ebf0; --soft: #9ba7b5; --line: #323b47; --accent: #63b9dd;
    --d0: #1d4a33; --d1: #34481f; --d2: #564914; --d3: #5e3b1a; --d4: #632c24; --d5: #4a343b; --sure: #16313f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 10px; }
h3 { font-size: 1rem; margin: 22px 0 6px; }
section > :last-child { margin-bottom: 0; }
p { margin: 0 0 12px; max-width: 76ch; overflow-wrap: anywhere; }
a { color: var(--accent); }
.soft, figcaption, .note { color: var(--soft); }
.note { font-size: .9rem; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 14px 0 0; font-size: .92rem; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px 22px; margin-top: 20px;
}
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 12px; margin: 20px 0 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 16px; }
.card b { display: block; font-size: 1.6rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.card span { display: block; font-size: .84rem; color: var(--soft); overflow-wrap: anywhere; }
.card .what { color: var(--ink); font-weight: 600; }
.verdict {
  border-left: 4px solid var(--accent); background: var(--sure); border-radius: 0 10px 10px 0;
  padding: 12px 16px; margin: 14px 0 0; max-width: none;
}
.missing { border-left: 4px solid #c2571a; padding: 2px 0 2px 14px; }
figure { margin: 14px auto; max-width: 740px; padding: 6px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 4px 18px; }
.pair figure { margin: 8px 0; }
figure img { display: block; width: 100%; height: auto; color-scheme: light dark; }
.drawn { position: relative; }
.spot { position: absolute; width: 16px; height: 16px; margin: -8px 0 0 -8px; border-radius: 50%; cursor: pointer; }
.spot:hover, .spot:focus { z-index: 2; box-shadow: 0 0 0 2px var(--accent); outline: none; }
.told {
  display: none; position: absolute; top: 20px; width: max-content; max-width: min(270px, 60vw); padding: 6px 10px;
  background: var(--ink); color: var(--card); border-radius: 8px; font-size: .84rem; line-height: 1.4;
  pointer-events: none;
}
.told.right { left: 0; text-align: left; white-space: normal; }
.told.left { right: 0; }
.spot:hover .told, .spot:focus .told { display: block; }
.many { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 220px), 1fr)); gap: 12px; }
.many figure { margin: 0; width: 100%; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: separate; border-spacing: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; vertical-align: bottom; }
tbody th { font-weight: 600; }
.numbers td { text-align: right; white-space: nowrap; }
.numbers thead th:not(:first-child) { text-align: right; }
.numbers tbody th, .numbers thead th:first-child { position: sticky; left: 0; background: var(--card); }
.pairs th { font-weight: 500; color: var(--soft); white-space: nowrap; padding-left: 0; }
.pairs td { overflow-wrap: anywhere; min-width: 12ch; }
.groups { columns: 330px; column-gap: 28px; }
.groups .scroll { break-inside: avoid; margin-bottom: 16px; }
.groups table { width: 100%; }
.groups th { width: 50%; }
.right { text-align: right; white-space: nowrap; }
.d0 { background: var(--d0); } .d1 { background: var(--d1); } .d2 { background: var(--d2); }
.d3 { background: var(--d3); } .d4 { background: var(--d4); } .d5 { background: var(--d5); }
.trained { box-shadow: inset 0 0 0 2px var(--ink); font-weight: 700; }
.key { display: flex; flex-wrap: wrap; gap: 6px 14px; font-size: .84rem; color: var(--soft); margin: 8px 0 0; }
.key i { display: inline-block; width: 1.1em; height: 1.1em; border-radius: 3px; vertical-align: -2px; }
.key i { margin-right: 5px; }
details { margin-top: 12px; }
summary { cursor: pointer; color: var(--accent); }
pre, code { font: .84rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { overflow: auto; max-height: 60vh; padding: 12px; border: 1px solid var(--line); border-radius: 8px; }
pre { user-select: all; }
code { overflow-wrap: anywhere; }
@media (max-width: 560px) {
  body { font-size: 15px; }
  main { padding: 18px 10px 40px; }
  section { padding: 16px 12px; border-radius: 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px; }
  .card { padding: 10px 12px; }
  .card b { font-size: 1.25rem; }
  th, td { padding: 5px 7px; }
  .numbers { font-size: .8rem; }
  .numbers th, .numbers td { padding: 5px 4px; }
  .numbers:not(.stacked) thead th { white-space: normal; }
  .stacked, .stacked tbody, .stacked tr { display: block; width: 100%; }
  .stacked { font-size: .88rem; }
  .stacked thead { display: none; }
  .stacked tr { border-bottom: 1px solid var(--line); padding: 8px 0; }
  .stacked td, .stacked th { display: flex; justify-content: space-between; gap: 14px; border: 0; text-align: right; }
  .stacked td, .stacked tbody th { padding: 2px 0; }
  .stacked tbody th { position: static; text-align: left; overflow-wrap: anywhere; }
  .stacked td:empty { display: none; }
  .stacked td::before { content: attr(data-title); color: var(--soft); text-align: left; }
  .tiled, .tiled tbody { display: block; width: 100%; }
  .tiled thead { display: none; }
  .tiled tr { display: flex; flex-wrap: wrap; gap: 3px; padding: 8px 0; border-bottom: 1px solid var(--line); }
  .tiled tbody th { flex-basis: 100%; position: static; border: 0; padding: 0; }
  .tiled th[data-title="size"]::before, .tiled th[data-title="rtol"]::before { content: attr(data-title) " "; }
  .tiled td { flex: 1 0 4.2em; border: 0; border-radius: 6px; padding: 3px 5px; text-align: center; }
  .tiled td::before { display: block; content: attr(data-title); color: var(--soft); font-size: .72rem; }
  .spot { width: 12px; height: 12px; margin: -6px 0 0 -6px; }
  .many { grid-template-columns: 1fr 1fr; gap: 6px; }
  figure { padding: 2px; margin-left: -4px; margin-right: -4px; }
  .many figure { margin: 0; }
}
@media print {
  :root {
    --back: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --accent: #0b4f6e; --sure: #fff;
    --d0: #cfead8; --d1: #e6f2d5; --d2: #fcefc4; --d3: #fbd9b8; --d4: #f6bfb4; --d5: #e9d3d8;
  }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  section, .card { border-color: #ccc; }
  figure, .card, tr, .verdict { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
  .told { display: none !important; }
  td, i, .verdict { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
