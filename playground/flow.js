// The plane: points carried by a field, at the chosen solver beside a fine one.
const FLOW = (() => {
  const settings = { net: "coarse", scheme: "euler", steps: 3 }, FINE = { scheme: "rk4", steps: 128 };
  const points = CONTENT.flow.points, kept = {};
  let range = 1;

  function solved(name, solver) {
    const key = `${name} ${solver.scheme} ${solver.steps}`;
    if (!kept[key]) {
      const paths = trajectories(flowField(CONTENT.flow.nets[name]), points, solver.scheme, solver.steps);
      if (Object.keys(kept).length > 60) Object.keys(kept).forEach((old) => delete kept[old]);
      kept[key] = { paths, crossed: null };
      if (solver === FINE) setTimeout(() => {
        kept[key].crossed = crossings(paths);
        draw();
      });
      else kept[key].crossed = crossings(paths);
    }
    return kept[key];
  }

  const draw = onceAFrame(() => {
    const began = performance.now(), chosen = solved(settings.net, settings), fine = solved(settings.net, FINE);
    const all = chosen.paths.flat(2).map(Math.abs).filter(Number.isFinite).sort((a, b) => a - b);
    range = Math.max(0.6, 1.1 * (all[Math.floor(0.97 * (all.length - 1))] ?? 1));
    panel(byId("chosen"), chosen, settings);
    panel(byId("finer"), fine, FINE);
    const net = CONTENT.flow.nets[settings.net], pairs = (points.length * (points.length - 1)) / 2;
    const told = (crossed) => `${crossed ? crossed.length.toLocaleString("en") : "..."} of ${pairs.toLocaleString("en")} pairs`;
    byId("crossed").textContent = told(chosen.crossed);
    byId("crossed-fine").textContent = told(fine.crossed);
    byId("flow-accuracy").textContent = accuracyOf(net.accuracy, settings);
    byId("flow-fine").textContent = accuracyOf(net.accuracy, { scheme: "rk4", steps: 32 });
    byId("chosen-name").textContent = `${settings.scheme}, ${settings.steps} ${settings.steps === 1 ? "step" : "steps"}`;
    const own = `trained with ${net.scheme}, ${net.steps} steps`;
    byId("flow-own").textContent = settings.scheme === net.scheme && settings.steps === net.steps ? `${own}: shown as trained` : own;
    byId("flow-took").textContent = `computed in ${(performance.now() - began).toFixed(0)} ms`;
  });

  function panel(canvas, { paths, crossed }, solver) {
    const { brush, width, height } = prepared(canvas), at = ([x, y]) => [width / 2 + (x / range) * (width / 2), height / 2 - (y / range) * (height / 2)];
    const styles = [colour("--zero"), colour("--one")], mark = colour("--mark");
    arrows(brush, at);
    paths.forEach((path, i) => {
      const style = styles[points[i][2]];
      brush.globalAlpha = 0.45;
      line(brush, path.map(at), style, 1);
      brush.globalAlpha = 1;
      ring(brush, at(path[0]), 2, style, 1);
      disk(brush, at(path[path.length - 1]), 2.8, style);
    });
    if (byId("marks").checked)
      (crossed ?? []).slice(0, 1500).forEach(({ places }) => ring(brush, at(places[0]), 3.2, mark, 1.1));
    boundary(brush, at, width, height);
  }

  /** Where the classifier is undecided. */
  function boundary(brush, at, width, height) {
    const head = tensors(CONTENT.flow.nets[settings.net].head), [a, b] = [0, 1].map((k) => head.weight[2 + k] - head.weight[k]);
    const c = head.bias[1] - head.bias[0], far = 4 * range, size = Math.hypot(a, b) || 1, foot = [(-a * c) / size ** 2, (-b * c) / size ** 2];
    const ends = [-far, far].map((t) => at([foot[0] - (b / size) * t, foot[1] + (a / size) * t]));
    brush.setLineDash([5, 5]);
    line(brush, ends, colour("--soft"), 1.2);
    brush.setLineDash([]);
  }

  function arrows(brush, at) {
    const count = 17, style = colour("--arrow"), middle = (k) => range * (-1 + (2 * k + 1) / count);
    const grid = Array.from({ length: count * count }, (_, k) => [middle(k % count), middle(Math.floor(k / count))]);
    const slopes = flowField(CONTENT.flow.nets[settings.net])(Float64Array.from(grid.flat()));
    const sizes = grid.map((_, k) => Math.hypot(slopes[2 * k], slopes[2 * k + 1]));
    const largest = Math.max(...sizes) || 1, reach = (0.85 * range) / count;
    grid.forEach(([x, y], k) => {
      const share = (reach * (0.25 + 0.75 * Math.sqrt(sizes[k] / largest))) / (sizes[k] || 1);
      const [dx, dy] = [share * slopes[2 * k], share * slopes[2 * k + 1]], from = at([x - dx, y - dy]), to = at([x + dx, y + dy]);
      const turn = Math.atan2(to[1] - from[1], to[0] - from[0]);
      const wing = (angle) => [to[0] - 3.5 * Math.cos(turn + angle), to[1] - 3.5 * Math.sin(turn + angle)];
      line(brush, [from, to], style, 1);
      line(brush, [wing(0.5), to, wing(-0.5)], style, 1);
    });
  }

  const nets = Object.entries(CONTENT.flow.nets).map(([name, net]) => [name, `${net.scheme}, ${net.steps} steps`]);
  segments(byId("flow-net"), nets, settings.net, (value) => {
    settings.net = value;
    draw();
  });
  segments(byId("flow-scheme"), Object.keys(CONTENT.schemes).map((name) => [name, name]), settings.scheme, (value) => {
    settings.scheme = value;
    draw();
  });
  slider(byId("flow-steps"), CONTENT.steps, settings.steps, (value) => {
    settings.steps = value;
    draw();
  });
  byId("marks").addEventListener("change", draw);
  byId("flow-examples").textContent = CONTENT.flow.examples;
  draw();
  return { settings, solved };
})();

const redraw = () => REDRAW.forEach((each) => each());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe(document.body);
redraw();

// In a frame of another page there are the digits alone, as high as they are where that page may be told.
if (window.self !== window.top) {
  document.documentElement.classList.add("framed");
  const frame = window.frameElement, main = document.querySelector("main");
  if (frame) new ResizeObserver(() => (frame.style.height = `${Math.ceil(main.getBoundingClientRect().height)}px`)).observe(main);
}
