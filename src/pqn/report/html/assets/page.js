"use strict";
(() => {
  // ---- theme: as the system has it, until the reader chooses; printing is always light
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const printing = matchMedia("print");
  const drawn = [];
  let chosen = null;
  const recall = () => { try { chosen = localStorage.getItem("pqn-theme"); } catch { chosen = null; } };
  const keep = () => { try { localStorage.setItem("pqn-theme", chosen); } catch { /* a file may have no storage */ } };
  const theme = (forced) => {
    const name = forced || chosen || (systemDark.matches ? "dark" : "light");
    root.dataset.theme = name === "dark" ? "dark" : "light";
    const button = document.getElementById("theme");
    button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${button.textContent.toLowerCase()} theme`);
    for (const chart of drawn) chart.plot.redraw();
  };
  recall();
  theme(printing.matches ? "light" : null);
  systemDark.addEventListener("change", () => theme());
  printing.addEventListener("change", () => theme(printing.matches ? "light" : null));
  addEventListener("beforeprint", () => theme("light"));
  addEventListener("afterprint", () => theme());
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    keep();
    theme();
  });

  // ---- charts
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (place) => css(`--c${place % 7}`);
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e9) return `${+(value / 1e9).toPrecision(4)} G`;
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)} M`;
    if (size >= 1e4) return `${+(value / 1e3).toPrecision(4)} k`;
    if (size !== 0 && size < 1e-3) return value.toExponential(1);
    return `${+value.toPrecision(4)}`;
  };

  // Series of uPlot for one chart: for each line its low, its high, its seeds, its centre.
  const assemble = (lines) => {
    const tables = [], series = [{}], bands = [], owner = [null];
    lines.forEach((line, index) => {
      const columns = [line.steps];
      const add = (values, options) => { columns.push(values); series.push({ spanGaps: true, ...options }); owner.push(index); };
      const paint = () => colour(line.place);
      if (line.low) {
        add(line.high, { stroke: "transparent", width: 0, points: { show: false } });
        add(line.low, { stroke: "transparent", width: 0, points: { show: false } });
        bands.push({ series: [series.length - 2, series.length - 1], fill: () => `${paint()}2e` });
      }
      for (const seed of line.seeds) {
        add(seed, { stroke: () => `${paint()}70`, width: 1, points: { show: false } });
      }
      const dash = DASHES[Math.floor(line.place / 7) % DASHES.length];
      add(line.center, { stroke: paint, width: 2.25, dash, points: { show: line.steps.length < 2, size: 7 } });
      line.centre = series.length - 1;
      tables.push(columns);
    });
    return { data: uPlot.join(tables), series, bands, owner };
  };

  const draw = (spec) => {
    const place = document.getElementById(spec.id);
    const figure = place.closest("figure");
    const output = figure.querySelector("output");
    const reset = figure.querySelector("p > button");
    const { data, series, bands, owner } = assemble(spec.lines);
    const full = [data[0][0], data[0][data[0].length - 1]];
    if (full[0] === full[1]) { full[0] -= 1; full[1] += 1; }
    const labels = [...figure.querySelectorAll(".entry")].map((entry) => entry.textContent);
    const axis = (more) => ({
      stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false },
      font: "12px system-ui, sans-serif", values: (_, splits) => splits.map(number), ...more,
    });
    const size = () => ({ width: Math.max(place.clientWidth, 120), height: place.clientHeight });
    const state = { zoomed: false };
    const read = (plot) => {
      const at = plot.cursor.idx;
      if (at === null || at === undefined) { output.textContent = ""; return; }
      const parts = spec.lines.filter((line) => plot.series[line.centre].show).slice(0, 4).map((line) => {
        const near = line.steps.reduce((best, step, i) => (Math.abs(step - data[0][at]) < Math.abs(line.steps[best] - data[0][at]) ? i : best), 0);
        const interval = line.low ? ` [${number(line.low[near])}, ${number(line.high[near])}]` : "";
        const name = labels.length ? `${labels[spec.lines.indexOf(line)]} ` : "";
        return `${name}${number(line.center[near])}${interval}`;
      });
      output.textContent = `step ${number(data[0][at])}: ${parts.join(" · ")}`;
    };
    const plot = new uPlot({
      ...size(), series, bands, legend: { show: false }, padding: [8, 14, 0, 0],
      scales: { x: { time: false }, y: { range: (_, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(low, high, 0.08, true)) } },
      axes: [axis({ space: 70, size: 28, ...(spec.large ? { label: "environment steps", labelSize: 20, labelGap: 2, labelFont: "12px system-ui, sans-serif" } : {}) }), axis({ size: 58 })],
      cursor: { drag: { x: true, y: true, uni: 40 }, points: { show: false }, y: false },
      hooks: {
        setCursor: [read],
        setScale: [(self, key) => {
          if (key !== "x") return;
          const { min, max } = self.scales.x;
          state.zoomed = min > full[0] || max < full[1];
          reset.hidden = !state.zoomed;
          place.dataset.zoomed = state.zoomed;
        }],
      },
    }, data, place);
    const show = (low, high) => {
      const width = Math.min(high - low, full[1] - full[0]);
      const left = Math.min(Math.max(low, full[0]), full[1] - width);
      plot.setScale("x", { min: left, max: left + width });
    };
    const whole = () => plot.setData(data, true);
    reset.addEventListener("click", () => { whole(); place.focus(); });
    place.addEventListener("keydown", (event) => {
      const { min, max } = plot.scales.x;
      const middle = (min + max) / 2, half = (max - min) / 2;
      const act = {
        "+": () => show(middle - half / 1.5, middle + half / 1.5), "=": () => show(middle - half / 1.5, middle + half / 1.5),
        "-": () => show(middle - half * 1.5, middle + half * 1.5),
        ArrowLeft: () => show(min - half / 3, max - half / 3), ArrowRight: () => show(min + half / 3, max + half / 3),
        0: whole, Escape: whole,
      }[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
    });
    figure.querySelectorAll(".entry").forEach((entry) => entry.addEventListener("click", () => {
      const on = entry.getAttribute("aria-pressed") !== "true";
      entry.setAttribute("aria-pressed", on);
      plot.batch(() => owner.forEach((line, index) => { if (line === +entry.dataset.line) plot.setSeries(index, { show: on }); }));
    }));
    new ResizeObserver(() => { if (place.clientWidth) plot.setSize(size()); }).observe(place);
    place.dataset.drawn = "true";
    drawn.push({ plot, spec });
  };

  // A chart is drawn when it is first seen: those of folded runs cost nothing until then.
  const specs = new Map(JSON.parse(document.getElementById("charts").textContent).map((spec) => [spec.id, spec]));
  const pending = (place) => specs.has(place.id) && !place.dataset.drawn && place.clientWidth > 0;
  const drawVisible = () => document.querySelectorAll(".chart").forEach((place) => { if (pending(place)) draw(specs.get(place.id)); });
  drawVisible();
  document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", drawVisible));
  addEventListener("beforeprint", drawVisible);

  // ---- tables
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const body = table.tBodies[0], rows = [...body.rows];
      const numeric = rows.some((row) => row.cells[column].dataset.value);
      // The first click on numbers puts the highest on top.
      const falling = head.ariaSort === "none" ? numeric : head.ariaSort === "ascending";
      const key = (row) => (numeric ? parseFloat(row.cells[column].dataset.value) : row.cells[column].textContent);
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (numeric && (Number.isNaN(x) || Number.isNaN(y))) return Number.isNaN(x) - Number.isNaN(y); // unknown ones last
        const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
        return falling ? -order : order;
      });
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      body.append(...rows);
    }));
  });

  // ---- commands
  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
})();
