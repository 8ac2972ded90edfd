// Computes a chapter's picture again when its sliders are moved, by the lines that npdl has
// (a test compares them). The picture is a file of docs/book/drawings.
{
  "use strict";
  const sigmoid = (z) => 1 / (1 + Math.exp(-z));

  function descent(known, update) {
    let at = known.start;
    const path = [at];
    for (let t = 1; t <= known.steps; t++) {
      at = at.map((x, k) => x - update(known.curvature[k] * x, k, t));
      path.push(at);
    }
    return path;
  }

  function adamw(known, lr) {
    const [b1, b2] = known.betas, m = known.start.map(() => 0), v = [...m];
    return descent(known, (g, k, t) => {
      m[k] = b1 * m[k] + (1 - b1) * g;
      v[k] = b2 * v[k] + (1 - b2) * g * g;
      return lr * m[k] / (1 - b1 ** t) / (Math.sqrt(v[k] / (1 - b2 ** t)) + known.eps);
    });
  }

  const COMPUTED = {
    gate(known, {forget, take, show}) {
      const [f, i, o] = [forget, take, show].map(sigmoid);
      const c = f * known.held + i * known.offered, tanh = Math.tanh(c);
      return {f, i, o, c, h: o * tanh, back: o * (1 - tanh * tanh) * f};
    },
    shares(known, {temperature, hidden}) {
      const seen = known.scores.length - hidden, most = Math.max(...known.scores.slice(0, seen));
      const e = known.scores.map((z, k) => k < seen ? Math.exp((z - most) / temperature) : 0);
      const sum = e.reduce((a, b) => a + b), A = e.map((x) => x / sum);
      return {...Object.fromEntries(A.map((share, k) => [`A${k}`, share])),
              y: A.reduce((y, share, k) => y + share * known.values[k], 0)};
    },
    valley(known, rates) {
      const paths = {SGD: descent(known, (g) => rates.sgd * g), AdamW: adamw(known, rates.adamw)};
      const ends = Object.entries(paths).map(([name, path]) =>
        [`${name}_end`, Math.hypot(...path[path.length - 1])]);
      return {...paths, ...Object.fromEntries(ends)};
    },
  };

  const shown = (v) => v < 1000 ? v.toFixed(3).replace("-", "−") : "over 1000";
  const place = ([x, y]) => [175 + 75 * x, 125 - 130 * y]
    .map((at) => Math.min(2000, Math.max(-2000, at)).toFixed(2)).join(",");

  function start(figure, computed) {
    const known = JSON.parse(figure.querySelector("[type='application/json']").textContent);
    const sliders = [...figure.querySelectorAll("input")];
    const move = () => {
      const given = Object.fromEntries(sliders.map((s) => [s.name, Number(s.value)]));
      const found = figure.found = computed(known, given);
      for (const slider of sliders) slider.parentNode.querySelector("output").textContent = slider.value;
      for (const text of figure.querySelectorAll("[data-value]"))
        text.textContent = shown(found[text.dataset.value]);
      for (const line of figure.querySelectorAll("[data-path]"))
        line.setAttribute("points", found[line.dataset.path].map(place).join(" "));
      for (const bar of figure.querySelectorAll("[data-bar]")) {
        const value = found[bar.dataset.bar], {from, unit} = bar.dataset;
        bar.setAttribute("x", Number(from) + Math.min(0, value) * unit);
        bar.setAttribute("width", Math.abs(value) * unit);
      }
    };
    for (const slider of sliders) slider.addEventListener("input", move);
    figure.querySelector(".sliders").hidden = false;
    move();
  }

  for (const sliders of document.querySelectorAll("[data-moving]"))
    start(sliders.parentNode, COMPUTED[sliders.dataset.moving]);
}
