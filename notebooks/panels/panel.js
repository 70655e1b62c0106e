// What a panel shows beyond ipywidgets: a slider whose number can be typed, and a picture that answers the pointer.

const INK = "var(--jp-ui-font-color1, #222)", PALE = "var(--jp-ui-font-color2, #555)";
const EDGE = "var(--jp-border-color1, #bbb)", GROUND = "var(--jp-layout-color1, #fff)";
const PACE = 120, PAUSE = 800; // of a running slider, in ms; after which a key begins a new move
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

const spell = (value) => String(Number(Number(value).toPrecision(10)));

function number({ model, el }) {
  const label = model.get("label"), log = model.get("log");
  el.dataset.lmSuppressShortcuts = "true"; // keys are ours, not the notebook's
  el.classList.add("panel-control");
  const row = add(el, "div", { title: model.get("tip") });
  row.style.cssText = `display: flex; align-items: center; gap: 6px; max-width: 440px; margin: 2px 0; color: ${INK}; font-size: var(--jp-ui-font-size1, 13px)`;
  const name = add(row, "span", {}, label);
  name.style.cssText = "flex: 0 1 10.5em; min-width: 5em; line-height: 1.1; text-align: right";
  const range = add(row, "input", { type: "range", step: "any", class: "panel-range", "aria-label": label });
  range.style.cssText = "flex: 1 1 60px; min-width: 50px; accent-color: var(--jp-brand-color1, #1976d2)";
  const field = add(row, "input", { type: "text", inputmode: "decimal", class: "panel-field", "aria-label": `${label}, typed` });
  field.style.cssText = `flex: none; width: 4.6em; padding: 1px 4px; border: 1px solid ${EDGE}; border-radius: 3px; background: ${GROUND}; color: ${INK}; font: inherit`;

  const to = (v) => (log ? Math.log10(v) : v), from = (v) => (log ? 10 ** v : v);
  const tidy = (v) => (model.get("whole") ? Math.round(v) : Number(v.toPrecision(12)));
  const ends = () => [to(model.get("low")), to(model.get("high"))];

  function show() {
    const [low, high] = ends(), value = model.get("value");
    range.min = low;
    range.max = high;
    range.value = to(value);
    range.setAttribute("aria-valuetext", spell(value));
    if (document.activeElement !== field) field.value = spell(value);
  }

  let last = -Infinity, held = false;
  // `moving` tells that the picture before this change is not one to remember.
  function move(place, moving) {
    const [low, high] = ends(), inside = Math.min(Math.max(place, low), high);
    const end = inside === low ? model.get("low") : inside === high ? model.get("high") : null;
    const value = end ?? tidy(from(inside));
    if (value === model.get("value")) return false;
    model.set({ value, moving });
    model.save_changes();
    return true;
  }

  const onGrid = (place) => {
    const [low] = ends(), step = model.get("step");
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
    const step = model.get("step"), now = to(model.get("value"));
    move(end ?? Number((now + way * step).toFixed(9)), event.timeStamp - last < PAUSE);
    last = event.timeStamp;
  });

  let asked = null; // what was typed and is not answered yet; Enter and leaving the field ask once
  function take() {
    if (field.value === asked || field.value.trim() === spell(model.get("value"))) return;
    asked = field.value;
    model.set("moving", false);
    model.save_changes();
    model.send({ typed: asked });
  }
  field.addEventListener("change", take);
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") field.value = spell(model.get("value"));
    if (event.key === "Enter") take();
  });
  model.on("msg:custom", ({ shown }) => {
    if (shown !== undefined && field.value === asked) field.value = spell(shown);
    asked = null;
    show();
  });

  let clock = null;
  if (model.get("playable")) {
    const stop = () => {
      clearInterval(clock);
      clock = null;
      play.textContent = "▶";
      play.setAttribute("aria-label", `play ${label}`);
    };
    const play = button(row, "▶", `play ${label}`, () => {
      if (clock) return stop();
      play.textContent = "❚❚";
      play.setAttribute("aria-label", `pause ${label}`);
      if (to(model.get("value")) >= ends()[1]) move(ends()[0], false);
      clock = setInterval(() => {
        if (!move(Number((to(model.get("value")) + model.get("step")).toFixed(9)), true)) stop();
      }, PACE);
    });
    play.style.padding = "1px 5px";
  }
  show();
  model.on("change", show);
  return () => (clearInterval(clock), model.off("change", show));
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
  bar.after(text);

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
    if (!text.hidden && document.activeElement !== text) text.hidden = true; // of an older setting
  }

  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = 1 - (event.clientY - box.top) / box.height;
    const here = model.get("axes").find(({ box: [l, b, r, t] }) => x >= l && x <= r && y >= b && y <= t);
    if (!here) return (reading.textContent = "");
    const [l, b, r, t] = here.box;
    const pair = [along(here.x, (x - l) / (r - l)), along(here.y, (y - b) / (t - b))];
    reading.textContent = pair.map((v, k) => `${"xy"[k]} = ${v.toPrecision(4)}`).join("  ");
  });
  image.addEventListener("pointerleave", () => (reading.textContent = ""));

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
