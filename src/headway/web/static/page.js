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

function chartOptions(width) {
  const axis = {
    stroke: colour("--quiet"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: 184,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 12, 0, 0],
    scales: { x: { time: true, range: (_, min, max) => [min - 1800, max + 1800] }, y: { range: (_, min, max) => [0, Math.max(4, max * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, splits) => splits.map((at) => `${pad(new Date(at * 1e3).getUTCHours())}:00`), space: 60, size: 28 },
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

function sayLink(state) {
  const link = document.getElementById("link");
  link.dataset.state = state;
  setText(link.lastElementChild, { live: "Live", loading: "Connecting", lost: "Reconnecting" }[state]);
}

function refresh() {
  takeAnchor();
  drawChart(false);
}

document.addEventListener("htmx:sse:after:connection", () => sayLink("live"));
document.addEventListener("htmx:sse:after:message", () => { sayLink("live"); refresh(); });
document.addEventListener("htmx:sse:error", () => sayLink("lost"));
document.addEventListener("htmx:error", () => sayLink("lost"));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawChart(true));
let widthSeen = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === widthSeen) return;
  widthSeen = window.innerWidth;
  drawChart(true);
});
refresh();
tick();
