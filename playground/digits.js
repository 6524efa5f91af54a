// Digits: what is drawn becomes 8 x 8 pixels as in the training data, and two nets answer it.
const DIGITS = (() => {
  const settings = { scheme: "rk4", steps: 16, size: 9 }, names = ["continuous", "resnet"], [, SIDE] = CONTENT.digits.image;
  let strokes = [], pixels = [...CONTENT.digits.samples[Math.min(9, CONTENT.digits.samples.length - 1)].pixels], took = 0;
  const pad = byId("pad");

  /** The size of a net's own that is nearest to the one chosen. */
  const sizeOf = (net) => Math.max(...Object.keys(net.blocks).map(Number).filter((size) => size <= settings.size));

  function answers() {
    return Object.fromEntries(names.map((name) => {
      const net = CONTENT.digits.nets[name], chosen = { ...settings, size: sizeOf(net) };
      return [name, { chosen, net, along: digitsAlongDepth(net, pixels, chosen) }];
    }));
  }

  const draw = onceAFrame(() => {
    const began = performance.now(), found = answers();
    for (const name of names) show(name, found[name]);
    drawPixels();
    took = performance.now() - began;
    byId("took").textContent = `both nets answered in ${took.toFixed(0)} ms`;
  });

  function show(name, { chosen, net, along }) {
    const card = byId(name), last = along[along.length - 1].probabilities, top = last.indexOf(Math.max(...last));
    card.querySelector(".answer b").textContent = top;
    card.querySelector(".answer span").textContent = `${(100 * last[top]).toFixed(1)} %`;
    card.querySelector(".bars").replaceChildren(...Array.from(last, (p, digit) => {
      const bar = document.createElement("div"), fill = document.createElement("i"), label = document.createElement("span");
      bar.title = `${digit}: ${(100 * p).toFixed(2)} %`;
      bar.className = digit === top ? "bar top" : "bar";
      fill.style.height = `${Math.max(2, 100 * p)}%`;
      label.textContent = digit;
      bar.append(fill, label);
      return bar;
    }));
    const own = chosen.scheme === net.scheme && chosen.steps === net.steps && chosen.size === Math.max(...Object.keys(net.blocks).map(Number));
    card.querySelector(".accuracy").textContent = accuracyOf(net.accuracy[chosen.size], chosen);
    card.querySelector(".cost").textContent = `${evaluations(chosen)} evaluations, ${net.blocks[chosen.size].parameters.toLocaleString("en")} parameters`;
    card.querySelector(".own").textContent = own ? "as it was trained" : "another depth than it was trained at";
    card.querySelector(".own").classList.toggle("is-own", own);
    drawAlongDepth(card.querySelector("canvas"), along);
  }

  function drawPixels() {
    const { brush, width, height } = prepared(byId("seen")), side = width / SIDE;
    brush.fillStyle = colour("--pad");
    brush.fillRect(0, 0, width, height);
    pixels.forEach((value, i) => {
      brush.globalAlpha = value / 16;
      brush.fillStyle = colour("--ink");
      brush.fillRect((i % SIDE) * side, Math.floor(i / SIDE) * side, side + 0.5, side + 0.5);
    });
    brush.globalAlpha = 1;
    drawPad();
  }

  function drawPad() {
    const { brush, width } = prepared(pad);
    strokes.forEach((stroke) => {
      const points = stroke.map(([x, y]) => [x * width, y * width]);
      line(brush, points.length > 1 ? points : [...points, ...points], colour("--ink"), width / 12);
    });
    if (!strokes.length) {
      brush.fillStyle = colour("--soft");
      brush.textAlign = "center";
      brush.fillText("draw a digit here", width / 2, width / 2);
    }
  }

  /** Strokes fitted to the height of the image; a pixel holds 0 to 16, the ink of 4 x 4 finer ones. */
  function rasterised() {
    const points = strokes.flat(), xs = points.map((p) => p[0]), ys = points.map((p) => p[1]), fine = 4 * SIDE;
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const ink = fine / 7.5, factor = (fine - ink) / Math.max(bottom - top, right - left, 0.05);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = fine;
    const brush = canvas.getContext("2d", { willReadFrequently: true });
    const fit = ([x, y]) => [fine / 2 + (x - (left + right) / 2) * factor, fine / 2 + (y - (top + bottom) / 2) * factor];
    strokes.forEach((stroke) => line(brush, [...stroke.map(fit), fit(stroke[stroke.length - 1])], "#000", ink));
    const alpha = brush.getImageData(0, 0, fine, fine).data, found = new Array(SIDE * SIDE).fill(0);
    for (let row = 0; row < fine; row++)
      for (let column = 0; column < fine; column++)
        found[(row >> 2) * SIDE + (column >> 2)] += alpha[4 * (row * fine + column) + 3] / 255;
    return found.map(Math.round);
  }

  function place(event) {
    const { left, top, width, height } = pad.getBoundingClientRect();
    return [(event.clientX - left) / width, (event.clientY - top) / height];
  }

  let isDrawing = false, isFresh = true;
  pad.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    pad.setPointerCapture(event.pointerId);
    if (isFresh) strokes = [];
    isFresh = false;
    isDrawing = true;
    strokes.push([place(event)]);
    update();
  });
  pad.addEventListener("pointermove", (event) => {
    if (!isDrawing) return;
    strokes[strokes.length - 1].push(...(event.getCoalescedEvents?.().map(place) ?? []), place(event));
    update();
  });
  ["pointerup", "pointercancel"].forEach((name) => pad.addEventListener(name, () => (isDrawing = false)));
  byId("clear").addEventListener("click", () => {
    strokes = [];
    pixels = new Array(SIDE * SIDE).fill(0);
    draw();
  });

  function update() {
    pixels = rasterised();
    draw();
  }

  CONTENT.digits.samples.forEach((sample, i) => {
    const button = document.createElement("button"), canvas = document.createElement("canvas");
    canvas.width = canvas.height = SIDE;
    button.type = "button";
    button.setAttribute("aria-label", `a ${sample.label} of the test set`);
    const brush = canvas.getContext("2d");
    REDRAW.push(() => {
      brush.clearRect(0, 0, SIDE, SIDE);
      sample.pixels.forEach((value, k) => {
        brush.globalAlpha = value / 16;
        brush.fillStyle = colour("--ink");
        brush.fillRect(k % SIDE, Math.floor(k / SIDE), 1, 1);
      });
    });
    button.append(canvas);
    button.addEventListener("click", () => {
      strokes = [];
      pixels = [...sample.pixels];
      draw();
    });
    byId("samples").append(button);
  });

  segments(byId("scheme"), Object.keys(CONTENT.schemes).map((name) => [name, name]), settings.scheme, (value) => {
    settings.scheme = value;
    draw();
  });
  slider(byId("steps"), CONTENT.steps, settings.steps, (value) => {
    settings.steps = value;
    draw();
  });
  slider(byId("size"), CONTENT.sizes, settings.size, (value) => {
    settings.size = value;
    draw();
  });
  byId("digits-examples").textContent = CONTENT.digits.examples;
  draw();
  return { pixels: () => [...pixels], settings, answers, took: () => took };
})();
