"use strict";

// A click on a heading sorts its table: numbers by value, other texts after them, empty cells last.
function parsed(cell) {
  const text = cell.textContent.trim();
  const number = /^[+\-\u2212\u00b1]?\d/.test(text) ? parseFloat(text.replace(/[,\u00b1]/g, "").replace("\u2212", "-")) : NaN;
  return { text, number, rank: text === "" || text === "-" ? 2 : Number.isNaN(number) ? 1 : 0 };
}

function compare(a, b, sign) {
  if (a.rank !== b.rank) return a.rank - b.rank;
  const byNumber = a.rank === 0 ? a.number - b.number : 0;
  return sign * (byNumber || a.text.localeCompare(b.text, undefined, { numeric: true }));
}

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const cells = [...body.rows].map((row) => row.cells[column]).filter(Boolean);
    if (cells.some((cell) => cell.classList.contains("number"))) {
      [head, ...cells].forEach((cell) => cell.classList.add("number"));
    }
    head.querySelector("button").addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [parsed(row.cells[column]), row]);
      rows.sort((a, b) => compare(a[0], b[0], sign));
      body.append(...rows.map((pair) => pair[1]));
    });
  });
}

// A click on a legend's entry hides and shows its series.
function series(svg, name) {
  return [...svg.querySelectorAll("g.series, .spot")].filter((one) => one.dataset.series === name);
}

for (const svg of document.querySelectorAll("figure svg")) {
  for (const key of svg.querySelectorAll("g.key")) {
    const own = series(svg, key.dataset.series);
    if (own.length === 0) continue;
    const shown = (yes) => {
      key.setAttribute("aria-pressed", yes);
      own.forEach((one) => one.classList.toggle("gone", !yes));
    };
    const toggle = () => shown(key.getAttribute("aria-pressed") !== "true");
    key.setAttribute("role", "button");
    key.setAttribute("tabindex", "0");
    key.setAttribute("aria-label", key.dataset.series);
    shown(true);
    key.addEventListener("click", toggle);
    key.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle();
      }
    });
  }
}

// The values of the nearest place, beside the pointer.
const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);
let near = [];

function show(shown, x, y) {
  for (const spot of near) spot.classList.remove("near");
  near = shown;
  tip.hidden = shown.length === 0;
  if (tip.hidden) return;
  for (const spot of shown) spot.classList.add("near");
  tip.textContent = shown.map((spot) => spot.dataset.says).join("\n\n");
  const room = document.documentElement.clientWidth - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
  tip.style.top = `${y + 14 + tip.offsetHeight < innerHeight ? y + 14 : y - tip.offsetHeight - 10}px`;
}

for (const svg of document.querySelectorAll("figure svg")) {
  const spots = [...svg.querySelectorAll(".spot")];
  if (spots.length === 0) continue;
  for (const spot of spots) {
    const title = spot.querySelector("title");
    spot.dataset.says = title.textContent;
    title.remove();
  }
  const follow = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const found = [];
    for (const spot of spots) {
      if (spot.classList.contains("gone")) continue;
      const { x, y, width, height } = spot;
      const [left, top, wide, high] = [x, y, width, height].map((length) => length.baseVal.value);
      const outside = Math.hypot(Math.max(left - at.x, 0, at.x - left - wide), Math.max(top - at.y, 0, at.y - top - high));
      const middle = Math.hypot(left + wide / 2 - at.x, top + high / 2 - at.y);
      if (outside < 16) found.push({ spot, outside, middle });
    }
    found.sort((one, other) => one.outside - other.outside || one.middle - other.middle);
    // The nearest, or those on top of each other.
    const shown = found.filter(({ outside }, place) => place === 0 || (outside === 0 && place < 3));
    show(shown.map(({ spot }) => spot), event.clientX, event.clientY);
  };
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", () => show([]));
}
addEventListener("scroll", () => show([]), { passive: true });
