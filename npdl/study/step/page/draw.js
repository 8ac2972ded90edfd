// How arrays are drawn: as tables of coloured numbers when they are small, else as heat maps.

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const digits = (x) => x === "nan" ? "NaN" : typeof x === "string" ? x : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(1) : String(Number(x.toPrecision(3)));

function colour(share, most = 0.85) {
  const name = share < 0 ? "--minus" : "--plus";
  return "rgba(" + getComputedStyle(document.documentElement).getPropertyValue(name).trim() + "," + (most * Math.min(1, Math.abs(share))).toFixed(3) + ")";
}

const FEW = 48;                 // arrays with at most this many entries are tables, as in pictures.py
// Return the largest magnitude of a finite entry; 1 for an array without one.
const scaleOf = (array) => Math.max(Math.abs(array.low), Math.abs(array.high)) || 1;
// Return true if the page has all entries of an array, because they are few.
const isWhole = (array) => array.shape.reduce((a, b) => a * b, 1) <= FEW;

function heat(array) {
  const name = array.name + ", " + array.shape.join(" by "), rows = array.entries, columns = rows[0].length;
  const scale = scaleOf(array);
  if (isWhole(array)) {
    const table = make("table", "heat");
    table.setAttribute("aria-label", name);
    for (const row of rows) {
      const line = table.insertRow();
      for (const x of row) {
        const cell = line.insertCell();
        cell.textContent = digits(x);
        if (x === "nan") cell.className = "none";
        else if (typeof x === "number" && rows.length <= 16 && columns <= 16) cell.style.background = colour(x / scale, 0.55);      // digits are drawn on it
      }
    }
    const box = make("div", "scroll");
    box.tabIndex = 0;                                   // what scrolls can be scrolled by keyboard
    box.append(table);
    return box;
  }
  const canvas = make("canvas", "heat"), size = 16;
  canvas.width = columns * size;
  canvas.height = rows.length * size;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Heat map of " + name + ", from " + digits(array.low) + " to " + digits(array.high));
  const pen = canvas.getContext("2d");
  rows.forEach((row, r) => row.forEach((x, c) => {
    pen.fillStyle = typeof x === "string" ? "#888" : colour(x / scale);
    pen.fillRect(c * size, r * size, size, size);
  }));
  return canvas;
}

function badge(check) {
  const sign = { right: "✓ ", wrong: "✗ " }[check.kind] || "~ ";
  const where = check.call === null ? "" : ": the gradient of " + check.of + " (line " + check.line + ")";
  return make("p", "badge " + check.kind, sign + check.text + where);
}

// An array that a line writes or reads: its name, its verdict, its picture.
function card(entry, arrays) {
  const box = make("div", "array"), head = make("h3", "", entry.name + " ");
  box.append(head);
  if (entry.array === undefined) {
    head.append(make("span", "", entry.how));
    return box;
  }
  const array = { ...arrays[entry.array], name: entry.name };
  head.append(make("span", "", "(" + array.shape.join(", ") + ") " + array.dtype + (entry.how && entry.how !== "bound" ? ", " + entry.how : "")));
  if (entry.check) box.append(badge(entry.check));
  if (array.shape.includes(0)) {
    box.append(make("p", "heat", "empty (" + array.shape.join(", ") + ")"));
    return box;
  }
  box.append(heat(array));
  if (!isWhole(array)) {
    const scale = make("div", "scale"), most = digits(scaleOf(array));
    scale.append(make("span", "", "−" + most), make("i"), make("span", "", "+" + most));
    box.append(scale);
  }
  if (array.nan && typeof array.low === "string") {
    box.append(make("p", "", "all NaN"));
    return box;
  }
  let text = array.entries.flat().length < 2 ? "" : "norm " + digits(array.norm) + ", min " + digits(array.low) + ", max " + digits(array.high);
  if (array.nan) text += ", " + array.nan + " NaN (striped)";
  if (array.inf) text += ", " + array.inf + " infinite";
  if (text) box.append(make("p", "", text));
  return box;
}
