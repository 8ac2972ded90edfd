// Moves the first page's recorded run: a slider over its steps, or by itself.
{
  "use strict";
  const figure = document.getElementById("grokking");
  const run = RUN;                                        // of grokking-run.js
  const [moving, svg, slider, button, output] =
    [".moving", "svg", "input", "button", "output"].map((name) => figure.querySelector(name));
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const last = run.step[run.step.length - 1];
  const COLOURS = {train: "var(--train)", validation: "var(--validation)"};
  const BOXES = {loss: [30, 200], accuracy: [270, 200]};          // x and width; y is 30 to 210
  const across = (box, step) => box[0] + box[1] * Math.log(step) / Math.log(last);
  const HEIGHTS = {loss: (v) => 210 - 180 * (Math.log10(v) + 4.3) / 5.6,
                   accuracy: (v) => 210 - 180 * v};

  function line(part, name, until) {
    const points = run.step.slice(0, until + 1).map((step, i) =>
      `${across(BOXES[name], step).toFixed(1)},${HEIGHTS[name](run[`${part}_${name}`][i]).toFixed(1)}`);
    return `<polyline points="${points.join(" ")}" fill="none" stroke="${COLOURS[part]}"` +
      ` stroke-width="1.8"${part === "validation" ? ' stroke-dasharray="5 2"' : ""}/>`;
  }

  function box(name, title) {
    const [x, width] = BOXES[name];
    return `<text x="${x}" y="18">${title}</text><path d="M${x} 30V210H${x + width}" fill="none"` +
      ` class="axis"/>` + [1, 100, 10000].map((s) => `<text class="small" x="${across(BOXES[name], s)}"` +
      ` y="226" text-anchor="middle">${s.toLocaleString("en")}</text>`).join("");
  }

  function circle(places) {
    const reach = 1.1 * Math.max(...places.flat().map(Math.abs));   // they shrink: weight decay
    const at = places.map(([x, y]) => [610 + 95 * x / reach, 120 - 95 * y / reach]);
    const inverse = [...Array(run.p).keys()].find((i) => i * run.frequency % run.p === 1);
    const path = [...Array(run.p + 1).keys()].map((i) => at[i * inverse % run.p].join(",")).join(" ");
    return `<text x="515" y="18">embeddings of 0 to ${run.p - 1}, scaled</text>` +
      `<polyline points="${path}" fill="none" class="axis"/>` + at.map(([x, y], n) =>
      `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="4" fill="hsl(${360 * (n * run.frequency % run.p) / run.p} 70% 50%)">` +
      `<title>${n}</title></circle>`).join("");
  }

  function draw() {
    const frame = Number(slider.value), until = run.at[frame];
    output.textContent = run.step[until].toLocaleString("en");
    svg.innerHTML = box("loss", "loss") + box("accuracy", "accuracy") +
      ["train", "validation"].flatMap((part) =>
        [line(part, "loss", until), line(part, "accuracy", until)]).join("") +
      `<text class="small" x="275" y="245" fill="${COLOURS.train}">training set</text>` +
      `<text class="small" x="365" y="245" fill="${COLOURS.validation}">held-out set (dashed)</text>` +
      circle(run.places[frame]);
  }

  let timer = null;
  function play(on) {
    clearInterval(timer);
    timer = on ? setInterval(() => {
      slider.value = (Number(slider.value) + 1) % run.at.length;
      draw();
    }, 150) : null;
    button.textContent = on ? "pause" : "play";
  }
  slider.addEventListener("input", () => { play(false); draw(); });
  button.addEventListener("click", () => play(timer === null));
  slider.max = run.at.length - 1;
  slider.value = still ? run.at.length - 1 : 0;
  moving.hidden = false;
  draw();
  if (!still) play(true);
}
