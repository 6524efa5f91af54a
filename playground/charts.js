// Drawing on canvases that follow the page's colours, and controls that are shared by both halves.
const REDRAW = [];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A canvas cleared and scaled to the screen's pixels: drawing is in CSS pixels. */
function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const brush = canvas.getContext("2d");
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, width, height);
  brush.font = `500 12px ${getComputedStyle(document.body).fontFamily}`;
  return { brush, width, height };
}

function line(brush, points, style, width = 1) {
  brush.beginPath();
  points.forEach(([x, y], i) => (i ? brush.lineTo(x, y) : brush.moveTo(x, y)));
  brush.strokeStyle = style;
  brush.lineWidth = width;
  brush.lineJoin = brush.lineCap = "round";
  brush.stroke();
}

function disk(brush, [x, y], radius, style) {
  brush.beginPath();
  brush.arc(x, y, radius, 0, 2 * Math.PI);
  brush.fillStyle = style;
  brush.fill();
}

function ring(brush, [x, y], radius, style, width = 1.5) {
  brush.beginPath();
  brush.arc(x, y, radius, 0, 2 * Math.PI);
  brush.strokeStyle = style;
  brush.lineWidth = width;
  brush.stroke();
}

/** Probabilities along depth: the answer bold, the others thin; a dot at every step. */
function drawAlongDepth(canvas, along) {
  const { brush, width, height } = prepared(canvas), last = along[along.length - 1].probabilities;
  const left = 44, right = 22, top = 10, bottom = 30, answer = last.indexOf(Math.max(...last));
  const x = (time) => left + time * (width - left - right), y = (p) => top + (1 - p) * (height - top - bottom);
  brush.fillStyle = colour("--soft");
  brush.textBaseline = "middle";
  [0, 0.5, 1].forEach((p) => {
    line(brush, [[left, y(p)], [width - right, y(p)]], colour("--line"));
    brush.textAlign = "right";
    brush.fillText(`${100 * p} %`, left - 5, y(p));
    brush.textAlign = p === 0.5 ? "center" : p ? "right" : "left";
    brush.fillText(["input", "depth", "answer"][2 * p], x(p), height - 8);
  });
  const order = [...last.keys()].sort((a, b) => last[a] - last[b]);
  for (const digit of order) {
    const points = along.map((state) => [x(state.time), y(state.probabilities[digit])]);
    const isTop = digit === answer, wasHigh = along.some((state) => state.probabilities[digit] > 0.15);
    const style = isTop ? colour("--accent") : colour(wasHigh ? "--second" : "--faint");
    line(brush, points, style, isTop ? 2.5 : 1.2);
    if (isTop && along.length < 40) points.forEach((point) => disk(brush, point, 2.6, style));
    if (isTop || last[digit] > 0.1) {
      brush.fillStyle = style;
      brush.textAlign = "left";
      brush.fillText(digit, width - right + 7, Math.min(Math.max(points[points.length - 1][1], 12), height - bottom - 2));
    }
  }
}

/** Buttons of which one is chosen. */
function segments(place, names, chosen, change) {
  const buttons = names.map(([value, text]) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text });
    button.dataset.value = value;
    button.addEventListener("click", () => choose(value));
    place.append(button);
    return button;
  });
  const choose = (value, isTold = true) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === String(value))));
    if (isTold) change(value);
  };
  choose(chosen, false);
  return choose;
}

/** A slider over a list of values. */
function slider(place, values, chosen, change) {
  const input = place.querySelector("input"), output = place.querySelector("output");
  Object.assign(input, { min: 0, max: values.length - 1, step: 1, value: values.indexOf(chosen) });
  const show = () => {
    output.textContent = values[input.value];
    input.setAttribute("aria-valuetext", values[input.value]);
  };
  input.addEventListener("input", () => {
    show();
    change(values[input.value]);
  });
  show();
}

function byId(id) {
  return document.getElementById(id);
}

/** At most one redrawing of a half of the page for every frame. */
function onceAFrame(draw) {
  let isWaiting = false;
  const ask = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw();
    });
  };
  REDRAW.push(ask);
  return ask;
}

function accuracyOf(table, { scheme, steps }) {
  const value = table[scheme][CONTENT.steps.indexOf(steps)];
  return value === null || value === undefined ? "not finite" : `${value.toFixed(1)} %`;
}

const evaluations = ({ scheme, steps }) => steps * CONTENT.schemes[scheme].b.length;
