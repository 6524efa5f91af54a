// The nets: a block's weights as functions of depth, Runge-Kutta steps, batch norm with the statistics at depth.
const CONTENT = JSON.parse(document.getElementById("content").textContent);
const NUMBERS = (() => {
  const bytes = Uint8Array.from(atob(CONTENT.numbers), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
})();
const EPSILON = 1e-5;

/** A stored tensor: a view on its numbers. */
function tensor([place, shape]) {
  return NUMBERS.subarray(place, place + shape.reduce((a, b) => a * b, 1));
}

function tensors(places) {
  return Object.fromEntries(Object.entries(places).map(([name, place]) => [name, tensor(place)]));
}

/** Weights of a block at time (step + c) / steps: rows of the basis, read with exact fractions. */
function reader(block) {
  const held = tensors(block.tensors), size = block.size;
  return (step, steps, [above, below]) => {
    const numerator = step * below + above, denominator = steps * below, found = {};
    let first, second, share = 0;
    if (block.basis === "constant") {
      const cell = Math.floor((numerator * size) / denominator), isKnot = (numerator * size) % denominator === 0;
      first = second = Math.min(isKnot && above === below ? cell - 1 : cell, size - 1);
    } else {
      const place = numerator * (size - 1);
      first = Math.min(Math.floor(place / denominator), Math.max(size - 2, 0));
      second = Math.min(first + 1, size - 1);
      share = (place - first * denominator) / denominator;
    }
    for (const name in held) {
      const length = held[name].length / size;
      const a = held[name].subarray(first * length, (first + 1) * length);
      if (share === 0) found[name] = a;
      else {
        const b = held[name].subarray(second * length, (second + 1) * length), mixed = new Float64Array(length);
        for (let i = 0; i < length; i++) mixed[i] = a[i] + share * (b[i] - a[i]);
        found[name] = mixed;
      }
      if (block.positive.includes(name)) found[name] = Float64Array.from(found[name], Math.exp);
    }
    return found;
  };
}

/** Steps of a scheme from 0 to 1; field(step, c, y) is the slope; seen(time, y) is told of every state. */
function integrate(y, steps, schemeName, scale, field, seen = () => {}) {
  const scheme = CONTENT.schemes[schemeName], h = scale / steps;
  seen(0, y);
  for (let step = 0; step < steps; step++) {
    const slopes = [];
    for (let stage = 0; stage < scheme.b.length; stage++) {
      const at = combined(y, slopes, scheme.a[stage] ?? [], h);
      slopes.push(field(step, scheme.c[stage], at));
    }
    y = combined(y, slopes, scheme.b, h);
    seen((step + 1) / steps, y);
  }
  return y;
}

function combined(y, slopes, factors, h) {
  const sum = Float64Array.from(y);
  factors.forEach((factor, j) => {
    if (factor) for (let i = 0; i < sum.length; i++) sum[i] += h * factor * slopes[j][i];
  });
  return sum;
}

/** 3 x 3 convolution with zeros beyond the edge. */
function convolved(x, weight, inputs, outputs, height, width) {
  const wide = width + 2, plane = (height + 2) * wide, padded = new Float64Array(inputs * plane);
  for (let c = 0; c < inputs; c++)
    for (let row = 0; row < height; row++)
      padded.set(x.subarray((c * height + row) * width, (c * height + row + 1) * width), c * plane + (row + 1) * wide + 1);
  const y = new Float64Array(outputs * height * width);
  for (let o = 0; o < outputs; o++)
    for (let c = 0; c < inputs; c++) {
      const k = (o * inputs + c) * 9;
      const w0 = weight[k], w1 = weight[k + 1], w2 = weight[k + 2], w3 = weight[k + 3], w4 = weight[k + 4];
      const w5 = weight[k + 5], w6 = weight[k + 6], w7 = weight[k + 7], w8 = weight[k + 8];
      for (let row = 0; row < height; row++) {
        let p = c * plane + row * wide, q = (o * height + row) * width;
        let a0 = padded[p], a1 = padded[p + 1], b0 = padded[p + wide], b1 = padded[p + wide + 1];
        let c0 = padded[p + 2 * wide], c1 = padded[p + 2 * wide + 1];
        for (let column = 0; column < width; column++, p++, q++) {
          const a2 = padded[p + 2], b2 = padded[p + wide + 2], c2 = padded[p + 2 * wide + 2];
          y[q] += w0 * a0 + w1 * a1 + w2 * a2 + w3 * b0 + w4 * b1 + w5 * b2 + w6 * c0 + w7 * c1 + w8 * c2;
          a0 = a1, a1 = a2, b0 = b1, b1 = b2, c0 = c1, c1 = c2;
        }
      }
    }
  return y;
}

/** Batch norm in eval mode, and a ReLU if wanted. */
function normed(x, norm, prefix, area, withRelu = true) {
  const mean = norm[`${prefix}running_mean`], variance = norm[`${prefix}running_var`], y = new Float64Array(x.length);
  const weight = norm[`${prefix}weight`], bias = norm[`${prefix}bias`];
  for (let c = 0; c < mean.length; c++) {
    const factor = weight[c] / Math.sqrt(variance[c] + EPSILON), shift = bias[c] - mean[c] * factor;
    for (let i = c * area; i < (c + 1) * area; i++) {
      const value = x[i] * factor + shift;
      y[i] = withRelu && value < 0 ? 0 : value;
    }
  }
  return y;
}

/** Of one example or of several, one after another. */
function linear(x, weight, bias) {
  const outputs = bias.length, inputs = weight.length / outputs, y = new Float64Array((x.length / inputs) * outputs);
  for (let place = 0, start = 0; place < y.length; start += inputs)
    for (let o = 0; o < outputs; o++, place++) {
      let sum = bias[o];
      for (let i = 0; i < inputs; i++) sum += weight[o * inputs + i] * x[start + i];
      y[place] = sum;
    }
  return y;
}

function softmax(scores) {
  const top = Math.max(...scores), powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** Probabilities along depth of one image (pixels 0 to 16): [{time, probabilities}], the last is the answer. */
function digitsAlongDepth(net, pixels, { scheme, steps, size }) {
  const { image, mean, std } = CONTENT.digits, [, height, width] = image, area = height * width;
  const block = net.blocks[size], read = reader(block), stem = tensors(net.stem), norm = tensors(net.norm);
  const head = tensors(net.classifier), channels = net.stem["1.weight"][1][0], along = [];
  const x = Float64Array.from(pixels, (value) => (value - mean) / std);
  const start = normed(convolved(x, stem["0.weight"], 1, channels, height, width), stem, "1.", area, false);
  const field = (step, c, y) => {
    const theta = read(step, steps, c);
    const middle = convolved(normed(y, theta, "bn1.", area), theta["conv1.weight"], channels, channels, height, width);
    return convolved(normed(middle, theta, "bn2.", area), theta["conv2.weight"], channels, channels, height, width);
  };
  integrate(start, steps, scheme, net.scale, field, (time, y) => {
    const pooled = averaged(normed(y, norm, "", area), channels, height, width, net.pool);
    along.push({ time, probabilities: softmax(linear(pooled, head.weight, head.bias)) });
  });
  return along;
}

function averaged(x, channels, height, width, pool) {
  const rows = height / pool, columns = width / pool, y = new Float64Array(channels * rows * columns);
  for (let c = 0; c < channels; c++)
    for (let row = 0; row < rows * pool; row++)
      for (let column = 0; column < columns * pool; column++)
        y[(c * rows + Math.floor(row / pool)) * columns + Math.floor(column / pool)] +=
          x[(c * height + row) * width + column] / (pool * pool);
  return y;
}

/** The planar field, at any number of points; the same at all depths, as its weights are one constant. */
function flowField(net) {
  const theta = reader(net)(0, 1, [0, 1]), last = net.layers - 1;
  return (y) => {
    for (let layer = 0; layer < last; layer++) {
      y = linear(y, theta[`inner.${layer}.weight`], theta[`inner.${layer}.bias`]);
      for (let i = 0; i < y.length; i++) if (y[i] < 0) y[i] = 0;
    }
    return linear(y, theta["out.weight"], theta["out.bias"]).map((v) => v * net.scale);
  };
}

/** States of every point at all times. */
function trajectories(field, points, scheme, steps) {
  const paths = points.map(() => []), start = Float64Array.from(points.flatMap(([x, y]) => [x, y]));
  const seen = (time, y) => paths.forEach((path, k) => path.push([y[2 * k], y[2 * k + 1]]));
  integrate(start, steps, scheme, 1, (step, c, y) => field(y), seen);
  return paths;
}

function flowScores(net, point) {
  const head = tensors(net.head);
  return linear(Float64Array.from(point), head.weight, head.bias);
}

/** Where pieces of two paths meet in a point inside both; a list for every pair that does. */
function crossings(paths) {
  const found = [], pieces = paths.map((path) => boxed(path, 0, path.length - 1));
  for (let i = 0; i < paths.length; i++)
    for (let j = 0; j < i; j++) {
      const places = [];
      meetings(pieces[i], pieces[j], paths[i], paths[j], places);
      if (places.length) found.push({ pair: [j, i], places });
    }
  return found;
}

/** The box around a part of a path, and those of its halves, down to single pieces. */
function boxed(path, from, to) {
  const part = { from, count: to - from, box: box(path.slice(from, to + 1)), halves: null };
  const middle = (from + to) >> 1;
  if (part.count > 1) part.halves = [boxed(path, from, middle), boxed(path, middle, to)];
  return part;
}

function box(points) {
  const corners = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    if (x < corners[0]) corners[0] = x;
    if (y < corners[1]) corners[1] = y;
    if (x > corners[2]) corners[2] = x;
    if (y > corners[3]) corners[3] = y;
  }
  return corners;
}

/** Adds the places where two parts meet; parts whose boxes are apart do not. */
function meetings(a, b, pathA, pathB, places) {
  if (!overlap(a.box, b.box)) return;
  if (a.count > 1 && a.count >= b.count) a.halves.forEach((half) => meetings(half, b, pathA, pathB, places));
  else if (b.count > 1) b.halves.forEach((half) => meetings(a, half, pathA, pathB, places));
  else {
    const place = meeting(pathA[a.from], pathA[a.from + 1], pathB[b.from], pathB[b.from + 1]);
    if (place) places.push(place);
  }
}

function overlap(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

function meeting(a, b, c, d) {
  const side = (p, q, r) => (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
  const [c1, d1, a1, b1] = [side(a, b, c), side(a, b, d), side(c, d, a), side(c, d, b)];
  if (c1 * d1 >= 0 || a1 * b1 >= 0) return null;
  const share = a1 / (a1 - b1);
  return [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])];
}
