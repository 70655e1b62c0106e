// A square with handles that a pointer drags or arrow keys move; the model keeps their data coordinates.
// Where it takes points of several kinds, a click adds one, a double click or Delete takes one away.

const SVG = "http://www.w3.org/2000/svg";
const SIZE = 300, LEFT = 30, BOTTOM = 24, REST = 10; // of the drawing and its margins, in its own units
const INK = "var(--jp-ui-font-color1, #222)", FAINT = "var(--jp-border-color2, #ccc)";
const TWICE = 400, STILL = 6; // what a double tap takes at most, in ms; how far a click may slip, in pixels
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// From data to the drawing's units and back, along one axis.
function scale([low, high], start, end) {
  const rate = (end - start) / (high - low);
  return { to: (v) => start + rate * (v - low), rate };
}

// At most eight round numbers between two limits.
function ticks([low, high]) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => (high - low) / s <= 8);
  const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, k) => Number(((first + k) * step).toPrecision(6)));
}

// Colours of one drawing, as CSS that follows the theme of the page.
function paint(el, onLight, onDark) {
  const sheet = document.createElement("style");
  const rule = (theme) => onLight.map((_, k) => `--pad-${k}: var(--pad-${k}-${theme});`).join(" ");
  sheet.textContent = `.pad-colours { ${rule("light")} } body[data-jp-theme-light="false"] .pad-colours { ${rule("dark")} }`;
  el.append(sheet);
  el.classList.add("pad-colours");
  onLight.forEach((colour, k) => el.style.setProperty(`--pad-${k}-light`, colour));
  onDark.forEach((colour, k) => el.style.setProperty(`--pad-${k}-dark`, colour));
  return onLight.map((_, k) => `var(--pad-${k})`);
}

function frame(svg, x, y, limits) {
  const [left, right] = limits[0].map(x.to), [bottom, top] = limits[1].map(y.to);
  const text = { "font-size": 11, fill: INK, "font-family": "var(--jp-ui-font-family, sans-serif)" };
  for (const v of ticks(limits[0])) {
    draw(svg, "line", { x1: x.to(v), x2: x.to(v), y1: bottom, y2: top, stroke: v ? FAINT : INK, "stroke-width": v ? 0.6 : 0.9 });
    draw(svg, "text", { ...text, x: x.to(v), y: bottom + 14, "text-anchor": "middle" }, v);
  }
  for (const v of ticks(limits[1])) {
    draw(svg, "line", { x1: left, x2: right, y1: y.to(v), y2: y.to(v), stroke: v ? FAINT : INK, "stroke-width": v ? 0.6 : 0.9 });
    draw(svg, "text", { ...text, x: left - 5, y: y.to(v) + 4, "text-anchor": "end" }, v);
  }
  draw(svg, "rect", { x: left, y: top, width: right - left, height: bottom - top, fill: "none", stroke: INK, "stroke-width": 0.8 });
}

function handle(svg, name, colour, arrow) {
  const group = draw(svg, "g", { tabindex: 0, role: "slider", class: "pad-handle", "aria-label": name });
  group.style.cssText = "cursor: grab; touch-action: none; outline: none";
  const shaft = arrow && draw(group, "line", { stroke: colour, "stroke-width": 2.2 });
  const ring = draw(group, "circle", { r: 12, fill: colour, "fill-opacity": 0.12, stroke: colour, "stroke-width": 0 });
  const tip = arrow
    ? draw(group, "path", { d: "M 3 0 L -11 -5.5 L -11 5.5 Z", fill: colour })
    : draw(group, "circle", { r: 5.5, fill: colour });
  const label = draw(group, "text", { "font-size": 13, fill: colour, "font-weight": 600 }, name);
  label.style.cssText = "user-select: none; pointer-events: none";
  group.addEventListener("focus", () => ring.setAttribute("stroke-width", 1.6));
  group.addEventListener("blur", () => ring.setAttribute("stroke-width", 0));
  return { group, shaft, ring, tip, label };
}

function place({ group, shaft, ring, tip, label }, [u, v], x, y) {
  const at = [x.to(u), y.to(v)], zero = [x.to(0), y.to(0)];
  const turn = (Math.atan2(at[1] - zero[1], at[0] - zero[0]) * 180) / Math.PI;
  if (shaft) for (const [key, value] of Object.entries({ x1: zero[0], y1: zero[1], x2: at[0], y2: at[1] })) shaft.setAttribute(key, value);
  for (const node of [ring, tip]) node.setAttribute("transform", `translate(${at}) rotate(${shaft ? turn : 0})`);
  const side = at[0] > SIZE - 45 ? -1 : 1; // the label stays inside
  label.setAttribute("x", at[0] + 12 * side);
  label.setAttribute("y", at[1] < 30 ? at[1] + 18 : at[1] - 9);
  label.setAttribute("text-anchor", side < 0 ? "end" : "start");
  group.setAttribute("aria-valuenow", u);
  group.setAttribute("aria-valuetext", `${u.toFixed(2)}, ${v.toFixed(2)}`);
}

function render({ model, el }) {
  const limits = model.get("limits"), box = model.get("box"), step = model.get("step"), free = model.get("free");
  const x = scale(limits[0], LEFT, SIZE - REST), y = scale(limits[1], SIZE - BOTTOM, REST);
  const svg = draw(el, "svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "pad", "aria-label": model.get("label") });
  svg.style.cssText = "width: 260px; max-width: 100%; display: block";
  el.dataset.lmSuppressShortcuts = "true"; // arrow keys are ours, not the notebook's
  frame(svg, x, y, limits);
  const names = model.get("names"), most = model.get("most");
  const colours = paint(el, model.get("colours"), model.get("on_dark"));
  const kindOf = (point, k) => (most ? point[2] : k);
  let handles = [], kind = 0; // kind: of the point that the next click adds

  // Handles are made anew only where points came or went, so that a drag keeps its own.
  function show() {
    const value = model.get("value");
    if (handles.map((one) => one.kind).join() !== value.map(kindOf).join()) {
      for (const { group } of handles) group.remove();
      handles = value.map((point, k) => {
        const own = kindOf(point, k);
        return { kind: own, ...handle(svg, names[own], colours[own], model.get("arrows")) };
      });
      handles.forEach(listen);
    }
    value.forEach((point, k) => place(handles[k], point, x, y));
  }

  function keep(value) {
    model.set("value", value);
    model.save_changes();
  }

  function onGrid(wanted, axis) {
    const snapped = Number((Math.round(wanted / step) * step).toFixed(9));
    return Math.min(Math.max(snapped, box[axis][0]), box[axis][1]);
  }

  // One handle to a place: inside the box, along free axes, and on the grid of steps once it leaves its start.
  function move(k, wanted) {
    const value = model.get("value").map((point) => [...point]);
    for (const axis of [0, 1]) {
      if (!free[axis] || Math.abs(wanted[axis] - value[k][axis]) < step / 2) continue;
      value[k][axis] = onGrid(wanted[axis], axis);
    }
    if (value[k].every((v, axis) => v === model.get("value")[k][axis])) return;
    keep(value);
  }

  function pointer(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [at.x, at.y];
  }

  const remove = (k) => keep(model.get("value").filter((_, other) => other !== k));

  function listen({ group }, k) {
    let grip = null; // pointer and handle where the drag began, so that nothing jumps
    let tapped = -Infinity; // when a finger touched it last: fingers have no double click
    group.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const finger = event.pointerType === "touch";
      if (most && finger && event.timeStamp - tapped < TWICE) return remove(k);
      if (finger) tapped = event.timeStamp;
      group.focus({ preventScroll: true });
      group.setPointerCapture(event.pointerId);
      grip = { from: pointer(event), point: model.get("value")[k] };
    });
    group.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // no scrolling
    group.addEventListener("pointermove", (event) => {
      if (!grip) return;
      tapped = -Infinity; // a drag is no tap
      const [across, down] = pointer(event);
      const { from, point } = grip;
      move(k, [point[0] + (across - from[0]) / x.rate, point[1] + (down - from[1]) / y.rate]);
    });
    for (const end of ["pointerup", "pointercancel"]) group.addEventListener(end, () => (grip = null));
    group.addEventListener("keydown", (event) => {
      const way = KEYS[event.key], gone = most && ["Delete", "Backspace"].includes(event.key);
      if (!way && !gone) return;
      event.preventDefault();
      event.stopPropagation();
      if (gone) return remove(k);
      const point = model.get("value")[k], size = step * (event.shiftKey ? 10 : 1);
      move(k, [point[0] + way[0] * size, point[1] + way[1] * size]);
    });
  }

  if (most) clicks();

  function clicks() {
    let pressed = null; // where on the ground
    let clicked = null; // the handle under the first of two clicks: the second may hit what the first has made
    svg.addEventListener("click", (event) => {
      const hit = handles.findIndex(({ group }) => group.contains(event.target));
      if (event.detail === 1) clicked = handles[hit];
      if (event.detail === 2 && hit >= 0 && handles[hit] === clicked) remove(hit);
    });
    svg.addEventListener("pointerdown", (event) => {
      pressed = event.target.closest(".pad-handle") ? null : [event.clientX, event.clientY];
    });
    svg.addEventListener("pointerup", (event) => {
      if (!pressed || Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > STILL) return;
      pressed = null;
      const [across, down] = pointer(event), value = model.get("value");
      const at = [limits[0][0] + (across - x.to(limits[0][0])) / x.rate, limits[1][0] + (down - y.to(limits[1][0])) / y.rate];
      const inside = at.every((v, axis) => v >= box[axis][0] && v <= box[axis][1]);
      if (inside && value.length < most) keep([...value, [...at.map(onGrid), kind]]);
    });
    const row = document.createElement("div");
    el.append(row);
    const button = (text, colour, act) => {
      const node = document.createElement("button");
      node.textContent = text;
      node.style.cssText = `margin: 0 6px 0 0; padding: 2px 8px; border: 2px solid transparent; color: ${colour}; cursor: pointer`;
      node.addEventListener("click", act);
      row.append(node);
      return node;
    };
    const pick = (own) => {
      kind = own;
      buttons.forEach((node, k) => {
        node.setAttribute("aria-pressed", k === own);
        node.style.borderColor = k === own ? colours[k] : "transparent";
      });
    };
    const buttons = names.map((name, k) => button(`add ${name}`, colours[k], () => pick(k)));
    button("clear", INK, () => keep([]));
    pick(0);
  }

  show();
  model.on("change:value", show);
  return () => model.off("change:value", show);
}

export default { render };
