// What the server cannot do: tick between two events, draw the chart, say whether we are live.
"use strict";

let anchor = null; // simulated time at a moment of ours, and how fast it runs

function pad(number) {
  return String(number).padStart(2, "0");
}

function left(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
}

function takeAnchor() {
  const timer = document.getElementById("countdown");
  if (!timer) return;
  const now = Number(timer.dataset.now);
  if (!anchor || anchor.now !== now) {
    anchor = { now, at: performance.now(), speed: Number(timer.dataset.speed) };
  }
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function tick() {
  requestAnimationFrame(tick);
  const timer = document.getElementById("countdown");
  if (!timer || !anchor) return;
  const now = anchor.now + (performance.now() - anchor.at) * anchor.speed;
  const remaining = Number(timer.dataset.at) - now;
  setText(timer, left(remaining));
  timer.classList.toggle("leaving", remaining <= 0);
  const date = new Date(now);
  const minutes = `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}`;
  setText(document.getElementById("sim-clock"), `now ${minutes}:${pad(date.getUTCSeconds())}`);
  setText(document.getElementById("sim-time"), minutes);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

let plot = null;
let plotted = null;

function axisLook() {
  return {
    stroke: colour("--quiet"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
}

function hoursOf(splits) {
  return splits.map((at) => `${pad(new Date(at * 1e3).getUTCHours())}:00`);
}

function plainChart(width, height) {
  return {
    width,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 12, 0, 0],
  };
}

function chartOptions(width) {
  const axis = axisLook();
  return {
    ...plainChart(width, 184),
    scales: { x: { time: true, range: (_, min, max) => [min - 1800, max + 1800] }, y: { range: (_, min, max) => [0, Math.max(4, max * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, splits) => hoursOf(splits), space: 60, size: 28 },
      { ...axis, size: 30 },
    ],
    series: [
      {},
      { fill: colour("--chart"), stroke: colour("--chart"), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 60], radius: 0.15 }) },
    ],
  };
}

function drawChart(fresh) {
  const box = document.getElementById("calls-chart");
  if (!box || !window.uPlot) return;
  const key = box.dataset.counts + Math.floor(Number(box.dataset.now) / 3.6e6);
  const isSame = plot && plot.root.parentNode === box;
  if (isSame && !fresh && key === plotted) return;
  plotted = key;
  const counts = JSON.parse(box.dataset.counts);
  const hour = Math.floor(Number(box.dataset.now) / 3.6e6) * 3600;
  const data = [counts.map((_, index) => hour - (counts.length - 1 - index) * 3600), counts];
  if (isSame && !fresh) {
    plot.setData(data);
    return;
  }
  if (plot) plot.destroy();
  box.textContent = "";
  plot = new uPlot(chartOptions(box.clientWidth), data, box);
}

// A rolling quota: used in 24 h up to now, the forecast from now on, the limit, and calls by hour.
const quotas = new Map();

function quotaOptions(width) {
  const axis = axisLook();
  const line = { points: { show: false }, spanGaps: true, width: 2 };
  return {
    ...plainChart(width, 224),
    padding: [8, 20, 0, 0],
    scales: {
      x: { time: true },
      y: { range: (_, min, max) => [0, max * 1.08] },
      // Calls of an hour are few beside those of a day: they stand in the lowest third.
      hour: { range: (_, min, max) => [0, Math.max(1, max * 3)] },
    },
    axes: [
      { ...axis, grid: { show: false }, values: (_, splits) => hoursOf(splits), space: 60, size: 28 },
      { ...axis, size: 44, values: (_, splits) => splits.map((count) => (count >= 10000 ? `${count / 1000}k` : String(count))) },
    ],
    series: [
      {},
      { ...line, stroke: colour("--accent"), fill: colour("--accent-soft") },
      { scale: "hour", fill: colour("--stale"), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 24], radius: 0.15 }) },
      { ...line, stroke: colour("--accent"), dash: [4, 4] },
      { ...line, stroke: colour("--bad"), width: 1.5 },
    ],
  };
}

function quotaData(given) {
  const half = 1800;
  const bars = new Map(given.hours.map(([at, used]) => [at + half, used]));
  const past = new Map(given.past);
  const next = new Map(given.next);
  const times = [...new Set([...bars.keys(), ...past.keys(), ...next.keys()])].sort((a, b) => a - b);
  const ends = new Set([times[0], times[times.length - 1]]);
  // uPlot leaves out what is undefined when it looks for the width of a bar.
  const of = (map) => times.map((at) => (map.has(at) ? map.get(at) : undefined));
  return [times, of(past), of(bars), of(next), times.map((at) => (ends.has(at) ? given.limit : undefined))];
}

function drawQuotas(fresh) {
  if (!window.uPlot) return;
  for (const box of document.querySelectorAll("[data-quota]")) {
    const known = quotas.get(box.id);
    const isSame = known && known.plot.root.parentNode === box;
    if (isSame && !fresh && known.key === box.dataset.series) continue;
    const data = quotaData(JSON.parse(box.dataset.series));
    if (isSame && !fresh) {
      known.plot.setData(data);
      known.key = box.dataset.series;
      continue;
    }
    if (known) known.plot.destroy();
    box.textContent = "";
    quotas.set(box.id, { plot: new uPlot(quotaOptions(box.clientWidth), data, box), key: box.dataset.series });
  }
}

function drawAll(fresh) {
  drawChart(fresh);
  drawQuotas(fresh);
}

function sayLink(state) {
  const link = document.getElementById("link");
  link.dataset.state = state;
  setText(link.lastElementChild, { live: "Live", loading: "Connecting", lost: "Reconnecting" }[state]);
}

function refresh() {
  takeAnchor();
  drawAll(false);
}

document.addEventListener("htmx:sse:after:connection", () => sayLink("live"));
document.addEventListener("htmx:sse:after:message", () => { sayLink("live"); refresh(); });
document.addEventListener("htmx:sse:error", () => sayLink("lost"));
document.addEventListener("htmx:error", () => sayLink("lost"));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
let widthSeen = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === widthSeen) return;
  widthSeen = window.innerWidth;
  drawAll(true);
});
refresh();
tick();
