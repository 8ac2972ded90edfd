// How arrays are drawn: as tables of coloured numbers when they are small, else as heat maps.

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const digits = (x) => x === null ? "NaN" : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(1) : String(Number(x.toPrecision(3)));

function colour(share, most = 0.85) {
  const name = share < 0 ? "--minus" : "--plus";
  return "rgba(" + getComputedStyle(document.documentElement).getPropertyValue(name).trim() + "," + (most * Math.min(1, Math.abs(share))).toFixed(3) + ")";
}

function heat(write) {
  const bytes = Uint8Array.from(atob(write.picture), (c) => c.charCodeAt(0));
  const share = (i) => (bytes[i] - 128) / 127;
  const name = write.name + ", " + write.shape.join(" by ");
  if (write.values) {
    const table = make("table", "heat");
    table.setAttribute("aria-label", name);
    write.values.forEach((row, r) => {
      const line = table.insertRow();
      row.forEach((text, c) => {
        const cell = line.insertCell(), i = r * write.columns + c;
        cell.textContent = text;
        if (text === "NaN") cell.className = "none";
        else if (write.values.length <= 16 && row.length <= 16) cell.style.background = colour(share(i), 0.55);      // digits are drawn on it
      });
    });
    const box = make("div", "scroll");
    box.tabIndex = 0;                                   // what scrolls can be scrolled by keyboard
    box.append(table);
    return box;
  }
  const canvas = make("canvas", "heat"), size = 16;
  canvas.width = write.columns * size;
  canvas.height = write.rows * size;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Heat map of " + name + ", from " + digits(write.low) + " to " + digits(write.high));
  const pen = canvas.getContext("2d");
  for (let i = 0; i < bytes.length; i++) {
    pen.fillStyle = bytes[i] === 0 ? "#888" : colour(share(i));
    pen.fillRect((i % write.columns) * size, Math.floor(i / write.columns) * size, size, size);
  }
  return canvas;
}

function badge(check) {
  const sign = { right: "✓ ", wrong: "✗ " }[check.kind] || "~ ";
  const where = check.of === undefined ? "" : ": the gradient of " + check.of + " (line " + check.line + ")";
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
  if (array.scale && !array.values) {
    const scale = make("div", "scale");
    scale.append(make("span", "", "−" + digits(array.scale)), make("i"), make("span", "", "+" + digits(array.scale)));
    box.append(scale);
  }
  if (array.nan && array.low === null) {
    box.append(make("p", "", "all NaN"));
    return box;
  }
  let text = array.values && array.values.length * array.values[0].length < 2 ? "" : "norm " + digits(array.norm) + ", min " + digits(array.low) + ", max " + digits(array.high);
  if (array.nan) text += ", " + array.nan + " NaN (striped)";
  if (array.inf) text += ", " + array.inf + " infinite";
  if (text) box.append(make("p", "", text));
  return box;
}
