// What a panel shows beyond ipywidgets: a slider whose number can be typed, and a picture that answers the pointer.

const INK = "var(--jp-ui-font-color1, #222)", PALE = "var(--jp-ui-font-color2, #555)";
const EDGE = "var(--jp-border-color1, #bbb)", GROUND = "var(--jp-layout-color1, #fff)";
const PACE = 120, PAUSE = 800; // of a running slider at its fastest, in ms; after which a key begins a new move
const WAYS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

function add(parent, name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  parent.append(node);
  return node;
}

function button(parent, text, title, act) {
  const node = add(parent, "button", { type: "button", title, "aria-label": title }, text);
  node.style.cssText = `padding: 1px 8px; border: 1px solid ${EDGE}; border-radius: 3px; background: ${GROUND}; color: ${INK}; cursor: pointer; font: inherit`;
  node.addEventListener("click", act);
  return node;
}

const read = (value) => (typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value); // no JSON is infinite
const spell = (value) => String(Number(read(value).toPrecision(10))).replace("Infinity", "∞");

// Places on a slider that stops at ticks: their indices, and in between for what was typed.
function tickPlace(ticks, value) {
  const k = ticks.findLastIndex((tick) => tick <= value);
  if (k < 0 || k === ticks.length - 1 || ticks[k] === value) return Math.max(k, 0);
  const share = (value - ticks[k]) / (ticks[k + 1] - ticks[k]);
  return k + (Number.isFinite(ticks[k]) && share > 0 && share < 1 ? share : 0.5);
}

// Steps one after the other, each once the picture of the one before is drawn, for a new value would make the
// work on it stale, and not before its time. `step(k)` tells whether there was one; `end` comes after the last.
function run(step, end) {
  let count = 0, clock = null, due = 0;
  const next = () => (clock ??= setTimeout(go, due - performance.now()));
  const halt = () => (clearTimeout(clock), end());
  function go() {
    clock = null;
    due = performance.now() + PACE;
    if (!step(count++)) halt();
  }
  next();
  return { next, halt };
}

function number({ model, el }) {
  const label = model.get("label"), log = model.get("log");
  el.dataset.lmSuppressShortcuts = "true"; // keys are ours, not the notebook's
  el.classList.add("panel-control");
  const row = add(el, "div", { title: model.get("tip") });
  row.style.cssText = `display: flex; align-items: center; gap: 6px; max-width: 440px; margin: 2px 0; color: ${INK}; font-size: var(--jp-ui-font-size1, 13px)`;
  const name = add(row, "span");
  label.split(/_(\w)/).forEach((part, k) => add(name, k % 2 ? "sub" : "span", {}, part)); // σ_w, bias std
  name.style.cssText = "flex: 0 1 10.5em; min-width: 5em; line-height: 1.1; text-align: right";
  const range = add(row, "input", { type: "range", step: "any", class: "panel-range", "aria-label": label });
  range.style.cssText = "flex: 1 1 60px; min-width: 50px; accent-color: var(--jp-brand-color1, #1976d2)";
  const field = add(row, "input", { type: "text", inputmode: "decimal", class: "panel-field", "aria-label": `${label}, typed` });
  field.style.cssText = `flex: none; width: 4.6em; padding: 1px 4px; border: 1px solid ${EDGE}; border-radius: 3px; background: ${GROUND}; color: ${INK}; font: inherit`;

  const ticks = model.get("ticks").map(read), step = model.get("step");
  const to = (v) => (ticks.length ? tickPlace(ticks, read(v)) : log ? Math.log10(v) : v), from = (v) => (log ? 10 ** v : v);
  const tidy = (v) => (model.get("whole") ? Math.round(v) : Number(v.toPrecision(12)));
  const ends = () => (ticks.length ? [0, ticks.length - 1] : [to(model.get("low")), to(model.get("high"))]);
  // One step on; from what was typed between two ticks, to the next of them.
  const after = (way) => {
    const place = to(model.get("value")) + way * step;
    return ticks.length ? (way > 0 ? Math.floor(place) : Math.ceil(place)) : Number(place.toFixed(9));
  };

  function show() {
    const [low, high] = ends(), value = model.get("value");
    range.min = low;
    range.max = high;
    range.value = to(value);
    range.setAttribute("aria-valuetext", spell(value));
    range.dataset.value = value; // with all its digits
    if (document.activeElement !== field) field.value = spell(value);
  }

  let last = -Infinity, held = false;
  // `moving` tells that the picture before this change is not one to remember.
  function move(place, moving) {
    const [low, high] = ends(), inside = Math.min(Math.max(place, low), high);
    const end = inside === low ? model.get("low") : inside === high ? model.get("high") : null;
    const value = ticks.length ? model.get("ticks")[Math.round(inside)] : end ?? tidy(from(inside));
    if (value === model.get("value")) return false;
    model.set({ value, moving });
    model.save_changes();
    return true;
  }

  const onGrid = (place) => {
    const [low] = ends();
    return Number((low + Math.round((place - low) / step) * step).toFixed(9));
  };
  range.addEventListener("input", () => {
    if (move(onGrid(Number(range.value)), held)) held = true;
    else show();
  });
  range.addEventListener("change", () => ((held = false), show()));
  range.addEventListener("pointerdown", () => (held = false));
  range.addEventListener("keydown", (event) => {
    const way = WAYS[event.key], end = { Home: ends()[0], End: ends()[1] }[event.key];
    if (way === undefined && end === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    move(end ?? after(way), event.timeStamp - last < PAUSE);
    last = event.timeStamp;
  });

  let asked = null; // what was typed and is not answered yet; Enter and leaving the field ask once
  function take() {
    if (field.value === asked || field.value.trim() === spell(model.get("value"))) return;
    asked = field.value;
    model.set({ moving: false, typed: [asked, (model.get("typed")[1] ?? 0) + 1] });
    model.save_changes();
  }
  field.addEventListener("change", take);
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") field.value = spell(model.get("value"));
    if (event.key === "Enter") take();
  });
  let film = null;
  if (model.get("playable")) {
    const play = button(row, "▶", `play ${label}`, () => {
      if (film) return film.halt();
      play.textContent = "❚❚";
      play.setAttribute("aria-label", `pause ${label}`);
      const rewind = to(model.get("value")) >= ends()[1];
      film = run(
        (k) => (k === 0 && rewind ? move(ends()[0], false) : move(after(1), true)),
        () => {
          film = null;
          play.textContent = "▶";
          play.setAttribute("aria-label", `play ${label}`);
        }
      );
    });
    play.style.padding = "1px 5px";
  }
  const hear = ({ shown, drawn, stopped }) => {
    if (drawn) return film?.next();
    if (stopped) return film?.halt();
    if (shown !== undefined && field.value === asked) field.value = spell(shown);
    asked = null;
    show();
  };
  model.on("msg:custom", hear);
  show();
  model.on("change", show);
  return () => (film?.halt(), model.off("msg:custom", hear), model.off("change", show));
}

// Data coordinates under a pointer that is `at` of the way along an axis.
function along({ kind, ends, values }, at) {
  const [low, high] = ends ?? [0, 0];
  if (kind === "linear") return low + (high - low) * at;
  if (kind === "log") return low * (high / low) ** at;
  const place = at * (values.length - 1), k = Math.min(Math.floor(place), values.length - 2);
  return values[k] + (values[k + 1] - values[k]) * (place - k);
}

function picture({ model, el }) {
  el.dataset.lmSuppressShortcuts = "true";
  const css = `color: ${INK}; font-size: var(--jp-ui-font-size1, 13px); display: flex; flex-wrap: wrap; gap: 4px 6px; align-items: center; min-height: 26px`;
  const bar = add(el, "div", { class: "panel-tools" });
  bar.style.cssText = css;
  const message = add(el, "div", { class: "panel-message", role: "alert" });
  message.style.cssText = "color: var(--jp-error-color0, #b5394c); margin: 2px 0; font-size: var(--jp-ui-font-size1, 13px)";
  const image = add(el, "img", { class: "widget-image panel-picture", draggable: "false" });
  image.style.cssText = "display: block; max-width: 100%; cursor: crosshair; transition: opacity 0.1s";

  button(bar, "reset", "reset: every control back to its start", () => model.send({ reset: true }));
  const toggles = [
    ["ghost", "ghost: keep the last curve, faint"],
    ["locked", "lock axes: keep their limits as they are now"],
    ["logarithmic", "log: vertical axes by powers of ten"],
  ].map(([trait, title]) => {
    const node = button(bar, title.split(":")[0], title, () => {
      model.set(trait, !model.get(trait));
      model.save_changes();
    });
    return [trait, node];
  });
  const copies = [["python", "copy as Python"], ["parameters", "copy as -p"]].map(([trait, title]) =>
    button(bar, title, title, () => {
      text.hidden = false;
      note.textContent = trait === "parameters" ? model.get("left_out") : "";
      text.value = model.get(trait);
      text.rows = text.value.split("\n").length;
      text.focus();
      text.select();
      navigator.clipboard?.writeText(text.value).catch(() => document.execCommand("copy"));
    })
  );
  const stop = button(bar, "stop", "stop: give up this computation", () => model.send({ stop: true }));
  const reading = add(bar, "output", { class: "panel-reading", "aria-live": "off" });
  reading.style.cssText = `color: ${PALE}; font-family: var(--jp-code-font-family, monospace); margin-left: auto`;
  const text = add(el, "textarea", { class: "panel-copy", readonly: "", "aria-label": "this setting as text", spellcheck: "false" });
  text.style.cssText = `box-sizing: border-box; width: 100%; margin: 2px 0; border: 1px solid ${EDGE}; background: ${GROUND}; color: ${INK}; font-family: var(--jp-code-font-family, monospace); font-size: 12px`;
  text.hidden = true;
  const note = add(el, "div", { class: "panel-left-out", role: "status" }); // what the text cannot say
  note.style.cssText = `color: ${PALE}; font-size: var(--jp-ui-font-size1, 13px)`;
  bar.after(text, note);

  let address = null;
  function draw() {
    const bytes = model.get("value");
    if (!bytes?.byteLength) return;
    const fresh = URL.createObjectURL(new Blob([bytes], { type: "image/png" }));
    image.style.width = `${model.get("shown_width")}px`;
    image.src = fresh;
    if (address) URL.revokeObjectURL(address);
    address = fresh;
  }
  function show() {
    image.alt = model.get("alt");
    message.textContent = model.get("message");
    message.hidden = !model.get("message");
    image.style.opacity = model.get("busy") ? 0.45 : 1;
    stop.hidden = !model.get("heavy");
    stop.disabled = !model.get("busy");
    stop.style.opacity = stop.disabled ? 0.45 : 1;
    for (const [trait, node] of toggles) {
      const on = model.get(trait);
      node.setAttribute("aria-pressed", on);
      node.style.borderColor = on ? "var(--jp-brand-color1, #1976d2)" : EDGE;
      node.style.boxShadow = on ? "inset 0 0 0 1px var(--jp-brand-color1, #1976d2)" : "none";
    }
    toggles[2][1].hidden = !model.get("can_log");
    if (!text.hidden && document.activeElement !== text) [text.hidden, note.textContent] = [true, ""]; // of an older setting
  }

  // The axes under the pointer and the data coordinates there; `held` axes stay the ones while a drag leaves them.
  function under(event, held = null) {
    const box = image.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = 1 - (event.clientY - box.top) / box.height;
    const all = model.get("axes");
    const k = held ?? all.findIndex(({ box: [l, b, r, t] }) => x >= l && x <= r && y >= b && y <= t);
    if (k < 0) return null;
    const [l, b, r, t] = all[k].box;
    return { k, pair: [along(all[k].x, (x - l) / (r - l)), along(all[k].y, (y - b) / (t - b))] };
  }
  image.addEventListener("pointermove", (event) => {
    const here = under(event);
    reading.textContent = here ? here.pair.map((v, k) => `${"xy"[k]} = ${v.toPrecision(4)}`).join("  ") : "";
    image.style.cursor = here && here.k === model.get("drag_axes") ? "grab" : "crosshair";
  });
  image.addEventListener("pointerleave", () => (reading.textContent = ""));

  // A point of the picture that follows the pointer; while one place is computed only the newest waits.
  let held = false, waits = null, busy = false;
  function pull(pair, moving) {
    waits = { point: pair, moving };
    if (busy) return;
    busy = true;
    model.send(waits);
    waits = null;
  }
  model.on("msg:custom", ({ drawn }) => {
    if (!drawn) return;
    busy = false;
    if (waits) pull(waits.point, waits.moving);
  });
  if (model.get("drag_axes") >= 0) {
    image.style.touchAction = "none";
    image.addEventListener("pointerdown", (event) => {
      const here = under(event);
      if (here?.k !== model.get("drag_axes")) return;
      event.preventDefault();
      image.setPointerCapture(event.pointerId);
      held = true;
      pull(here.pair, false);
    });
    image.addEventListener("pointermove", (event) => held && pull(under(event, model.get("drag_axes")).pair, true));
    for (const end of ["pointerup", "pointercancel"]) image.addEventListener(end, () => (held = false));
  }

  // What the page is like: its theme, its width, and how many pixels make one.
  function look() {
    const dark = document.body.dataset.jpThemeLight === "false";
    const width = Math.floor(el.clientWidth / 20) * 20, density = Math.min(Math.max(devicePixelRatio, 1), 3);
    const now = { dark, density, ...(width > 100 ? { width } : {}) };
    if (Object.entries(now).every(([key, value]) => model.get(key) === value)) return;
    model.set(now);
    model.save_changes();
  }
  let wait = null;
  const later = () => (clearTimeout(wait), (wait = setTimeout(look, 60)));
  const theme = new MutationObserver(later), size = new ResizeObserver(later);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  size.observe(el);
  later();
  draw();
  show();
  model.on("change:value", draw);
  model.on("change", show);
  return () => {
    clearTimeout(wait);
    theme.disconnect();
    size.disconnect();
    model.off("change:value", draw);
    model.off("change", show);
    if (address) URL.revokeObjectURL(address);
  };
}

export default { render: (context) => ({ number, picture })[context.model.get("kind")](context) };
