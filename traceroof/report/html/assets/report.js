"use strict";
// The page works without this script; with it, charts are drawn, the kernel table sorts, filters
// and unfolds. Text from the trace goes in as text (textContent), never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  // --- theme -------------------------------------------------------------------------------
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const themes = ["system", "dark", "light"];
  let theme = "system";

  function nextTheme() {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
    drawAll();
  }

  // --- charts ------------------------------------------------------------------------------
  // Figures are made with the light colours; each is exchanged for that of the page's theme.
  function painted(value, style) {
    if (typeof value === "string") {
      const name = data.colors[value];
      return name ? style.getPropertyValue(`--${name}`).trim() : value;
    }
    if (Array.isArray(value)) return value.map((entry) => painted(entry, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([key, entry]) => [key, painted(entry, style)]),
      );
    }
    return value;
  }

  const charts = [...document.querySelectorAll(".chart")];

  function draw(node) {
    const figure = painted(data.charts[node.dataset.chart], getComputedStyle(root));
    const config = { displayModeBar: false, displaylogo: false, responsive: true };
    // A page of paper has a width that no script can ask for: what A4 and Letter leave.
    if (print.matches) {
      figure.layout.width = 640;
      // Two to a page, so that no page has a hole where the second did not fit.
      if (figure.layout.height > 330) figure.layout.height = 330;
    }
    const before = node.classList.contains("js-plotly-plot");
    Plotly.react(node, figure.data, figure.layout, config);
    if (!before) {
      node.on("plotly_click", (event) => {
        const kernel = event.points[0].customdata;
        if (kernel) show(kernel);
      });
    }
  }

  function drawAll() {
    for (const node of charts) draw(node);
  }

  // --- kernel table ------------------------------------------------------------------------
  const table = byId("table");
  const body = table && table.tBodies[0];
  const rows = body ? [...body.rows] : [];
  // So many are in view until one asks for all, or for some by name, category or class.
  const first = 50;
  let everything = false;
  let order = rows;
  const cardOf = new Map();
  const numberOf = (row) => Number(row.id.slice(1));
  const nameOf = (at) => data.names[data.nameOf[at]];
  const texts = rows.map((row, at) =>
    `${row.textContent} ${nameOf(at)}`.toLowerCase().replaceAll("\u00a0", " "),
  );
  const buttonOf = (row) => row.querySelector("th button");

  function valueOf(row, column, kind) {
    if (kind === "t") return row.cells[column].textContent.trim();
    // Shares are of the time, which is more precise.
    const cell = row.cells[column === 5 ? 4 : column];
    const text = cell.dataset.v || cell.textContent.replace(/[,<%\s]/g, "");
    return text === "" || text === "unknown" ? null : Number(text);
  }

  function sortBy(header) {
    const column = header.cellIndex;
    const kind = header.querySelector("button").dataset.kind;
    const was = header.getAttribute("aria-sort");
    // Names and ranks begin with the first, amounts with the largest.
    const natural = kind === "t" || column === 0 ? "ascending" : "descending";
    const opposite = natural === "ascending" ? "descending" : "ascending";
    const way = was === natural ? opposite : natural;
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1;
    const keyed = rows.map((row) => [valueOf(row, column, kind), row]);
    keyed.sort(([a, one], [b, other]) => {
      // What is unknown comes last, whichever way.
      if (a === null || b === null) return (a === null) - (b === null) || numberOf(one) - numberOf(other);
      const difference = kind === "t" ? a.localeCompare(b) : a - b;
      return sign * difference || numberOf(one) - numberOf(other);
    });
    order = keyed.map(([, row]) => row);
    for (const row of order) {
      body.append(row);
      if (cardOf.has(row)) body.append(cardOf.get(row));
    }
    filter();
  }

  function filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const category = byId("category").value;
    const primary = byId("class").value;
    // A page with a base has one filter more.
    const change = byId("change") ? byId("change").value : "";
    const asked = words.length || category || primary || change;
    let matching = 0;
    let shown = 0;
    for (const row of order) {
      const hit =
        words.every((word) => texts[numberOf(row) - 1].includes(word)) &&
        (!category || row.cells[2].textContent === category) &&
        (!primary || row.cells[3].textContent.endsWith(` ${primary}`)) &&
        (!change || row.cells[14].textContent.trim().endsWith(` ${change}`));
      const visible = hit && (asked || everything || shown < first || cardOf.has(row));
      row.hidden = !visible;
      if (cardOf.has(row)) cardOf.get(row).hidden = !visible;
      matching += hit;
      shown += visible;
    }
    byId("count").textContent = asked ? `${matching} of ${rows.length} kernels` : `${rows.length} kernels`;
    byId("more").hidden = shown === matching;
    byId("nothing").hidden = matching > 0;
  }

  function toggle(row, open) {
    const button = buttonOf(row);
    const unfold = open === undefined ? button.getAttribute("aria-expanded") !== "true" : open;
    button.setAttribute("aria-expanded", String(unfold));
    if (!unfold) {
      if (cardOf.has(row)) cardOf.get(row).remove();
      cardOf.delete(row);
    } else if (!cardOf.has(row)) {
      const cell = make("td", { class: "card", colspan: row.cells.length });
      cell.append(...card(numberOf(row) - 1));
      const made = make("tr", {}, cell);
      cardOf.set(row, made);
      row.after(made);
    }
  }

  function show(number) {
    const row = byId(`k${number}`);
    if (!row) return;
    toggle(row, true);
    if (row.hidden) {
      // It has its card now, so it shows whenever nothing is asked for.
      byId("filters").reset();
      filter();
    }
    row.scrollIntoView({ block: "center" });
    buttonOf(row).focus({ preventScroll: true });
  }

  function step(by) {
    const visible = order.filter((row) => !row.hidden);
    if (!visible.length) return;
    const at = visible.findIndex((row) => row.contains(document.activeElement));
    const next = visible[Math.min(Math.max(at + by, 0), visible.length - 1)];
    buttonOf(next).focus();
  }

  // --- operator card -----------------------------------------------------------------------
  const svg = "http://www.w3.org/2000/svg";

  function barOf(width) {
    const bar = document.createElementNS(svg, "svg");
    const rect = document.createElementNS(svg, "rect");
    bar.setAttribute("class", "bar");
    bar.setAttribute("aria-hidden", "true");
    rect.setAttribute("width", `${width}%`);
    rect.setAttribute("height", "100%");
    bar.append(rect);
    return bar;
  }

  function listOf(name, entries) {
    const list = make("dl", { class: name });
    for (const [label, text, title, bar] of entries) {
      const term = make("dt", title ? { title } : {}, label);
      list.append(make("div", {}, term, make("dd", {}, text), bar ? barOf(bar) : null));
    }
    return list;
  }

  function part(title, content, whole) {
    return make("section", whole ? { class: "whole" } : {}, make("h4", {}, title), content);
  }

  function saidOf(entries) {
    return make("ul", { class: "said" }, ...entries.map((entry) => make("li", {}, ...entry)));
  }

  function card(index) {
    const known = data.cards[index];
    if (!known) {
      return [
        make("p", { class: "name" }, nameOf(index)),
        make("p", { class: "soft" }, "This page has no room for its card; traceroof diagnose --format json has all of it."),
      ];
    }
    const row = byId(`k${index + 1}`);
    const sign = row.querySelector("i").cloneNode(true);
    const primary = row.cells[3].textContent.trim().split(" ").pop();
    const facts = [
      ["time", `${row.cells[4].textContent} (${row.cells[5].textContent})`],
      ["launches", row.cells[6].textContent],
      ["per launch", `${row.cells[7].textContent}${known.spread || ""}`],
      ...(known.facts || []),
    ];
    const parts = make("div", { class: "parts" }, part("Launches", listOf("facts", facts)));
    const bars = (entries) => entries.map(([label, width, text]) => [label, text, "", width]);
    if (known.uses) parts.append(part("Use, of peak", listOf("uses", bars(known.uses))));
    if (known.roof) parts.append(part("Roofline, per launch", listOf("facts", known.roof)));
    if (known.occupancy) parts.append(part("Occupancy", listOf("facts", known.occupancy)));
    if (known.stalls) parts.append(part("Where warps wait", listOf("uses", bars(known.stalls))));
    if (known.lines) parts.append(part("Source lines, of samples", listOf("uses", bars(known.lines))));
    if (known.findings) {
      const found = known.findings.map(([fix, rule, because, saved]) => [
        fix ? make("a", { href: `#fix-${fix}` }, make("code", {}, rule)) : make("code", {}, rule),
        ` ${because}${saved ? `; ${saved}` : ""}.`,
      ]);
      parts.append(part("Findings", saidOf(found), true));
    }
    if (known.vendor) {
      const said = known.vendor.map(([rule, stands, text]) => [
        make("code", {}, rule),
        stands ? make("b", {}, `${stands}. `) : " ",
        text,
      ]);
      parts.append(part("The vendor says", saidOf(said), true));
    }
    if (known.metrics) {
      const metrics = make("div", { class: "metrics" });
      for (const [group, entries] of Object.entries(known.metrics)) {
        const listed = entries.map(([place, text]) => [data.columns[place][0], text, data.columns[place][1]]);
        metrics.append(make("h4", {}, group), listOf("facts", listed));
      }
      const count = Object.values(known.metrics).reduce((sum, entries) => sum + entries.length, 0);
      const fold = make("details", { class: "fold whole" }, make("summary", {}, `${count} more metrics`), metrics);
      parts.append(fold);
    }
    const why = known.why ? ` (${known.why})` : "";
    return [
      make("p", { class: "name" }, known.name || nameOf(index)),
      make("p", {}, sign, ` ${primary}: ${data.classes[primary] || ""}${why}.`),
      parts,
    ];
  }

  // --- what people do ----------------------------------------------------------------------
  function help() {
    const dialog = byId("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Not every browser lets a local file write there: select it, so that one key copies.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  }

  function follow() {
    const kernel = /^#k(\d+)$/.exec(location.hash);
    if (kernel) show(Number(kernel[1]));
    const fix = /^#fix-\d+$/.test(location.hash) && byId(location.hash.slice(1));
    if (fix) {
      for (let node = fix; node; node = node.parentElement) {
        if (node.tagName === "DETAILS") node.open = true;
      }
      fix.scrollIntoView({ block: "center" });
    }
  }

  document.addEventListener("click", (event) => {
    const target = event.target;
    const link = target.closest('a[href^="#k"], a[href^="#fix-"]');
    if (link && /^#(k|fix-)\d+$/.test(link.hash)) {
      // Following the same link twice changes no hash, but shows the kernel again.
      if (link.hash === location.hash) follow();
      return;
    }
    const button = target.closest("button");
    if (button && button.classList.contains("copy")) copy(button);
    else if (button && button.closest("#more")) {
      everything = true;
      filter();
    }
    else if (button && button.closest("#table thead")) sortBy(button.closest("th"));
    else if (body && body.contains(target)) {
      const row = target.closest("tr[id]");
      // A click that ends a selection of text is no click on the row.
      if (row && (button || String(getSelection()) === "")) toggle(row);
    }
  });

  const actions = {
    "/": () => byId("search") && byId("search").focus(),
    "?": help,
    f: () => { byId("fixes").scrollIntoView(); byId("fixes").focus(); },
    j: () => step(1),
    k: () => step(-1),
    t: nextTheme,
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });

  // Tables of amounts whose rows have nothing below them: a click on a title sorts them.
  function sortRows(header) {
    const body = header.closest("table").tBodies[0];
    const column = header.cellIndex;
    const natural = column === 0 ? "ascending" : "descending";
    const opposite = natural === "ascending" ? "descending" : "ascending";
    const way = header.getAttribute("aria-sort") === natural ? opposite : natural;
    for (const other of header.parentNode.cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1;
    const valueOf = (row) => row.cells[column].dataset.v;
    const keyed = [...body.rows].map((row) => [valueOf(row), row]);
    // What is unknown comes last, whichever way.
    keyed.sort(([a], [b]) => (a === "") - (b === "") || sign * (Number(a) - Number(b)));
    body.append(...keyed.map(([, row]) => row));
  }

  document.addEventListener("click", (event) => {
    const header = event.target.closest("table.sortable:not(#table) thead th");
    if (header) sortRows(header);
  });

  byId("theme").addEventListener("click", nextTheme);
  byId("help").addEventListener("click", help);
  if (table) {
    byId("filters").addEventListener("input", filter);
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    // The form is reset after this event.
    byId("filters").addEventListener("reset", () => setTimeout(filter));
    filter();
  }
  addEventListener("hashchange", follow);
  // On paper the light colours hold, whatever the screen shows.
  for (const media of [dark, print]) media.addEventListener("change", drawAll);
  // On paper nothing can be unfolded: reasons are printed, and folded again afterwards.
  const folded = () => [...document.querySelectorAll("details.why:not([open])")];
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = folded();
    for (const one of unfolded) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of unfolded) one.open = false;
  });
  drawAll();
  follow();
  root.dataset.ready = "";
})();
