// Stepping through the recorded statements.

const data = JSON.parse(document.getElementById("data").textContent);
const steps = data.steps, calls = data.calls, functions = data.functions;
const byId = (id) => document.getElementById(id);
const lanes = { forward: byId("forward"), backward: byId("backward") };
const shown = { forward: -1, backward: -1 };      // the function that each lane holds
let at = 0, timer = null;

const phaseOf = (step) => calls[step.call].phase;
const wrongAt = (step) => Boolean(step.error) || step.writes.some((w) => w.check && w.check.kind === "wrong");
const doubtfulAt = (step) => wrongAt(step) || step.writes.some((w) => w.check && w.check.kind === "upstream");
// The marks that each line has earned so far in the whole run: right, wrong, or none.
const marks = new Map();
for (const step of steps) {
  for (const write of step.writes) {
    if (!write.check) continue;
    const key = calls[step.call].function + ":" + step.from;
    if (marks.get(key) !== "wrong") marks.set(key, write.check.kind);
  }
  if (step.error) marks.set(calls[step.call].function + ":" + step.from, "wrong");
}
const ran = new Set();
for (const step of steps) for (let n = step.from; n <= step.to; n++) ran.add(calls[step.call].function + ":" + n);

function fillLane(phase, callIndex) {
  const lane = lanes[phase], box = lane.querySelector(".code");
  if (callIndex === null) return;
  const call = calls[callIndex];
  const trail = [];
  for (let c = callIndex; c !== null; c = calls[c].parent) trail.unshift(functions[calls[c].function].name);
  const line = lane.querySelector(".trail");
  line.textContent = "";
  trail.forEach((name, i) => {
    if (i) line.append(" › ");
    line.append(i === trail.length - 1 ? make("b", "", name) : name);
  });
  line.append("  " + functions[call.function].module);
  if (shown[phase] === call.function) return;
  shown[phase] = call.function;
  box.textContent = "";
  for (const [number, code, comment, maths, said] of functions[call.function].lines) {
    const row = make("div", "row");
    row.dataset.line = number;
    const key = call.function + ":" + number;
    if (!ran.has(key)) row.classList.add("spare");
    const mark = marks.get(key);
    if (mark) {
      const sign = make("span", "marks " + mark, mark === "right" ? "✓" : mark === "wrong" ? "✗" : "~");
      sign.title = mark === "right" ? "agrees with the numerical gradient" : mark === "upstream" ? "wrong, here or upstream" : "wrong";
      row.append(sign);
    }
    const pre = make("pre");
    pre.innerHTML = "<u>" + number + "</u>" + code;
    const both = make("div", "both");
    both.append(pre);
    if (comment) both.append(make("span", "comment", comment));
    row.append(both);
    if (maths) {
      const formula = make("div", "maths");
      formula.innerHTML = maths;
      formula.title = said;
      row.append(formula);
    }
    box.append(row);
  }
}

function light(phase, from, to, className) {
  const box = lanes[phase].querySelector(".code");
  let target = null;
  for (const row of box.children) {
    const n = Number(row.dataset.line), on = n >= from && n <= to;
    row.classList.toggle(className, on);
    row.classList.remove(className === "now" ? "pair" : "now");
    if (on && className === "now") row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
    if (on && !target) target = row;
  }
  if (target) {
    const top = target.offsetTop - box.offsetTop, high = target.offsetHeight;
    if (top < box.scrollTop || top + high > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
  }
}

function sameLine(direction) {
  const here = steps[at];
  if (!here.turn.length) return -1;
  for (let i = at + direction; i >= 0 && i < steps.length; i += direction) {
    const other = steps[i];
    if (other.from === here.from && calls[other.call].function === calls[here.call].function && phaseOf(other) === phaseOf(here) && other.turn.join() !== here.turn.join()) return i;
  }
  return -1;
}

function show(index) {
  if (!steps.length) return;
  at = Math.max(0, Math.min(steps.length - 1, index));
  const step = steps[at], phase = phaseOf(step), other = phase === "forward" ? "backward" : "forward";
  fillLane(phase, step.call);
  light(phase, step.from, step.to, "now");
  const check = step.writes.map((w) => w.check).find((c) => c && c.call !== null);
  const pair = check ? check.call : calls[step.call].pair;
  if (phase === "backward") {
    fillLane("forward", pair);
    light("forward", check ? check.line : -1, check ? check.line : -1, "pair");
  } else {
    const twin = calls.findIndex((c) => c.phase === "backward" && c.pair === step.call);
    if (twin >= 0) fillLane("backward", twin);
    light("backward", -1, -1, "pair");
  }
  lanes[phase].classList.add("active");
  lanes[other].classList.remove("active");
  const box = byId("written");
  box.textContent = "";
  if (step.error) box.append(make("p", "error", "raised " + step.error));
  for (const write of step.writes) box.append(card(write, data.arrays));
  const read = byId("read");
  read.textContent = "";
  for (const one of step.reads) read.append(card(one, data.arrays));
  read.parentElement.hidden = !step.reads.length;
  const turns = step.turn;
  byId("turns").hidden = !turns.length;
  byId("turn").textContent = turns.join(", ");
  byId("turn-back").disabled = sameLine(-1) < 0;
  byId("turn-on").disabled = sameLine(1) < 0;
  byId("slider").value = at;
  const row = functions[calls[step.call].function].lines.find((l) => l[0] === step.from);
  byId("slider").setAttribute("aria-valuetext", "step " + (at + 1) + " of " + steps.length + ", " + phase);
  byId("count").textContent = (at + 1) + " / " + steps.length + " " + phase;
  byId("back").disabled = byId("first").disabled = at === 0;
  byId("on").disabled = byId("last").disabled = at === steps.length - 1;
  if (!timer) {
    const verdicts = step.writes.map((w) => w.name + " " + (data.arrays[w.array].shape.join(" by ")) + (w.check ? ", " + w.check.text : "")).join("; ");
    byId("said").textContent = phase + ", line " + step.from + ": " + (row ? row[4] || row[1].replace(/<[^>]*>/g, "") : "") + ". " + verdicts;
  }
  document.body.dataset.step = at;
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => at >= steps.length - 1 ? play(false) : show(at + 1), 900) : null;
  byId("play").textContent = on ? "‖" : "▶";
  byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
  document.body.dataset.playing = on ? "yes" : "no";
}

function toggle() {
  if (!timer && at === steps.length - 1) show(0);
  play(!timer);
}

function formulae() {
  const on = byId("formulae").getAttribute("aria-pressed") !== "true";
  byId("formulae").setAttribute("aria-pressed", on);
  document.body.classList.toggle("wide", on);
  show(at);                                        // rows have other heights now
}

function nextWrong() {
  for (let i = 1; i <= steps.length; i++) {
    const j = (at + i) % steps.length;
    if (doubtfulAt(steps[j])) return show(j);
  }
}

function drawMap() {
  const map = byId("map"), width = Math.max(1, map.clientWidth), pen = map.getContext("2d");
  const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(name).trim();
  map.width = width;
  steps.forEach((step, i) => {
    const x = Math.floor(i * width / steps.length), w = Math.max(1, Math.ceil(width / steps.length));
    pen.fillStyle = phaseOf(step) === "forward" ? ink("--pair-edge") : ink("--now-edge");
    pen.fillRect(x, 0, w, 4);
    const known = step.writes.some((v) => v.check);
    if (wrongAt(step)) { pen.fillStyle = ink("--wrong"); pen.fillRect(x, 0, Math.max(2, w), 10); }
    else if (known) { pen.fillStyle = ink("--right"); pen.fillRect(x, 6, w, 4); }
  });
}

const bad = data.finals.filter((f) => f.right === false).length;
const verdict = byId("verdict");
if (data.error) { verdict.textContent = "the layer raised " + data.error; verdict.className = "wrong"; }
else if (bad) { verdict.textContent = bad + " of " + data.finals.length + " gradients are wrong"; verdict.className = "wrong"; }
else if (data.finals.length) {
  const known = data.finals.filter((f) => f.right).length, all = known === data.finals.length;
  verdict.textContent = known + " of " + data.finals.length + " gradients agree with their numerical values";
  verdict.className = all ? "right" : "kink";
}
const table = make("table");
for (const f of data.finals) {
  const line = table.insertRow();
  line.insertCell().textContent = f.name;
  line.insertCell().textContent = typeof f.error === "string" ? "" : "relative error " + f.error.toExponential(0);
  const cell = line.insertCell();
  cell.textContent = f.right === null ? f.reason : f.right ? "right" : "wrong";
  cell.className = f.right === null ? "kink" : f.right ? "right" : "wrong";
}
byId("final").lastElementChild.append(table);
byId("final").hidden = !data.finals.length;

for (const note of data.notes) document.querySelector("header").append(make("p", "note", "note: " + note));

byId("slider").max = Math.max(0, steps.length - 1);
byId("slider").addEventListener("input", (e) => show(Number(e.target.value)));
byId("first").onclick = () => show(0);
byId("last").onclick = () => show(steps.length - 1);
byId("back").onclick = () => show(at - 1);
byId("on").onclick = () => show(at + 1);
byId("play").onclick = toggle;
byId("formulae").onclick = formulae;
byId("turn-back").onclick = () => { const i = sameLine(-1); if (i >= 0) show(i); };
byId("turn-on").onclick = () => { const i = sameLine(1); if (i >= 0) show(i); };
document.addEventListener("keydown", (e) => {
  if (e.altKey || e.ctrlKey || e.metaKey) return;
  const keys = { ArrowRight: () => show(at + 1), ArrowLeft: () => show(at - 1), Home: () => show(0), End: () => show(steps.length - 1), ArrowUp: () => byId("turn-back").click(), ArrowDown: () => byId("turn-on").click(), " ": toggle, w: nextWrong, W: nextWrong, f: formulae, F: formulae };
  if (!keys[e.key] || (e.key === " " && e.target.closest("button, summary")) || (/^Arrow(Up|Down)$/.test(e.key) && byId("turns").hidden)) return;
  e.preventDefault();
  keys[e.key]();
});
window.addEventListener("resize", () => { drawMap(); show(at); });
const wanted = /step=(\d+)/.exec(location.hash);
show(wanted ? Number(wanted[1]) - 1 : 0);
drawMap();
if (/play/.test(location.hash)) play(true);
