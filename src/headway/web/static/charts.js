// Charts: each box says its kind and carries its series; it is drawn again only when they change.
"use strict";

const charts = new Map(); // by the box's id: the plot, and the series it shows

function twoDigits(number) {
  return String(number).padStart(2, "0");
}

function color(name) {
  const probe = document.getElementById("probe") || document.body.appendChild(Object.assign(document.createElement("i"), { id: "probe", hidden: true }));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

function axisLook() {
  return {
    stroke: color("--quiet"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
}

function hoursOf(splits) {
  return splits.map((at) => `${twoDigits(new Date(at * 1e3).getUTCHours())}:${twoDigits(new Date(at * 1e3).getUTCMinutes())}`);
}

// Over more than two days the day is written, and the hour only where its day was just before.
function timesOf(_, splits) {
  if (splits.length < 2 || splits[splits.length - 1] - splits[0] < 172800) return hoursOf(splits);
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const days = splits.map((at) => { const day = new Date(at * 1e3); return `${day.getUTCDate()} ${months[day.getUTCMonth()]}`; });
  const hours = hoursOf(splits);
  return days.map((day, place) => (day === days[place - 1] ? hours[place] : day));
}

function plain(box, height) {
  return {
    width: box.clientWidth,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 22, 0, 0],
  };
}

function timeAxis() {
  return { ...axisLook(), grid: { show: false }, values: timesOf, space: 64, size: 28 };
}

function short(count) {
  return count >= 10000 ? `${count / 1000}k` : String(count);
}

// Steps of an axis that counts whole things.
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1000000];

function countAxis(size = 44) {
  return { ...axisLook(), size, incrs: WHOLE, values: (_, splits) => splits.map(short) };
}

function bars(fill, width = 60) {
  return { fill: color(fill), stroke: color(fill), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, width], radius: 0.15 }) };
}

function line(stroke, more = {}) {
  return { points: { show: false }, spanGaps: true, width: 2, stroke: color(stroke), ...more };
}

function fromZero(least, room = 1.1) {
  return { range: (_, min, max) => [0, Math.max(least, (max ?? 0) * room)] };
}

// Several lists of [instant, value] over one axis; uPlot leaves out what is undefined.
function joined(lists) {
  const maps = lists.map((list) => new Map(list));
  const times = [...new Set(maps.flatMap((map) => [...map.keys()]))].sort((a, b) => a - b);
  return [times, ...maps.map((map) => times.map((at) => (map.has(at) ? map.get(at) : undefined)))];
}

function steps() {
  return uPlot.paths.stepped({ align: 1 });
}

// An upright line at an instant.
function upright(plot, at, stroke, dash) {
  const x = Math.round(plot.valToPos(at, "x", true));
  if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
  plot.ctx.save();
  plot.ctx.strokeStyle = stroke;
  plot.ctx.lineWidth = 1.5 * devicePixelRatio;
  plot.ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, plot.bbox.top);
  plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
  plot.ctx.stroke();
  plot.ctx.restore();
}

const kinds = {
  // What a part cost, at the supplier and in the shop, and how many there were.
  prices: {
    data: (series) => {
      const now = document.getElementById("state").dataset.now / 1000;
      const upToNow = (list) => (list.length ? [...list, [now, list[list.length - 1][1]]] : list);
      return joined([upToNow(series.stock), upToNow(series.supplier), upToNow(series.shop)]);
    },
    options: (box) => ({
      ...plain(box, 200),
      scales: { x: { time: true }, y: { range: (_, min, max) => (min === null ? [0, 1] : [Math.max(0, min - (max - min || min) * 0.2), max + (max - min || max || 1) * 0.2]) }, stock: fromZero(1, 3) },
      axes: [timeAxis(), { ...axisLook(), size: 64 }, { ...axisLook(), scale: "stock", side: 1, size: 44, grid: { show: false }, incrs: WHOLE }],
      series: [
        {},
        { ...line("--stale", { width: 1, fill: color("--stale"), paths: steps() }), scale: "stock" },
        line("--quiet", { dash: [4, 4], paths: steps() }),
        line("--accent", { paths: steps() }),
      ],
    }),
  },
  share: {
    data: (series) => joined([series]),
    options: (box) => ({
      ...plain(box, 184),
      scales: { x: { time: true }, y: { range: (_, min) => [min === null ? 0 : Math.max(0, Math.floor(min - 2)), 100] } },
      axes: [timeAxis(), { ...axisLook(), size: 48, values: (_, splits) => splits.map((share) => `${share} %`) }],
      series: [{}, line("--accent", { fill: color("--accent-soft") })],
    }),
  },
  oldest: {
    data: (series) => joined([series, series.length ? [[series[0][0], 24], [series[series.length - 1][0], 24]] : []]),
    options: (box) => ({
      ...plain(box, 184),
      scales: { x: { time: true }, y: fromZero(26) },
      axes: [timeAxis(), { ...axisLook(), size: 48, values: (_, splits) => splits.map((hours) => `${hours} h`) }],
      series: [{}, line("--accent", { fill: color("--accent-soft") }), line("--bad", { width: 1.5 })],
    }),
  },
  // A day behind and a day ahead; the hour that has begun shows both.
  timetable: {
    data: (series) => joined([series.planned.map(([at, calls]) => [at + 1800, calls]), series.made.map(([at, calls]) => [at + 1800, calls]), series.limit === null ? [] : [[series.made[0][0] + 1800, series.limit], [series.planned[series.planned.length - 1][0] + 1800, series.limit]]]),
    options: (box, series) => ({
      ...plain(box, 224),
      scales: { x: { time: true, range: (_, min, max) => [min - 1800, max + 1800] }, y: fromZero(4) },
      axes: [timeAxis(), countAxis(36)],
      series: [{}, bars("--stale", 40), bars("--chart", 40), line("--bad", { width: 1.5 })],
      hooks: {
        draw: [(plot) => {
          series.windows.forEach(([opens]) => upright(plot, opens, color("--warn"), [3, 3]));
          upright(plot, series.now, color("--ink"), []);
        }],
      },
    }),
  },
  // A rolling quota: used in 24 h up to now, the forecast, the limit, and calls by hour.
  quota: {
    data(series) {
      const ends = [...series.past, ...series.next].map(([at]) => at);
      const limit = [[Math.min(...ends), series.limit], [Math.max(...ends), series.limit]];
      return joined([series.past, series.hours.map(([at, used]) => [at + 1800, used]), series.next, limit]);
    },
    options: (box) => ({
      ...plain(box, 224),
      scales: {
        x: { time: true },
        y: fromZero(1, 1.08),
        // Calls of an hour are few beside those of a day: they stand in the lowest third.
        hour: fromZero(1, 3),
      },
      axes: [timeAxis(), countAxis()],
      series: [
        {},
        line("--accent", { fill: color("--accent-soft") }),
        { ...bars("--stale", 24), scale: "hour" },
        line("--accent", { dash: [4, 4] }),
        line("--bad", { width: 1.5 }),
      ],
    }),
  },
};

function draw(box, isFresh) {
  const kind = kinds[box.dataset.chart];
  const known = charts.get(box.id);
  const isSame = known && known.plot.root.parentNode === box;
  if (isSame && !isFresh && known.series === box.dataset.series) return;
  const series = JSON.parse(box.dataset.series);
  const data = kind.data(series);
  if (isSame && !isFresh && !kind.options(box, series).hooks) {
    known.plot.setData(data);
    known.series = box.dataset.series;
    return;
  }
  if (known) known.plot.destroy();
  box.textContent = "";
  charts.set(box.id, { plot: new uPlot(kind.options(box, series), data, box), series: box.dataset.series });
}

function drawCharts(isFresh) {
  if (!window.uPlot) return;
  for (const box of document.querySelectorAll("[data-chart]")) draw(box, isFresh);
  for (const [id, { plot }] of charts) {
    if (document.getElementById(id)) continue;
    plot.destroy();
    charts.delete(id);
  }
}
