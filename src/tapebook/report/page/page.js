"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const day = 86400;
  const whole = { from: data.start, to: Math.max(data.end, data.start + 60) };
  const view = { ...whole, market: 0 };
  const hidden = new Set();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const tones = { "cash": "--cash", "buy and hold": "--hold", "buy and hold, same exposure": "--exposed" };
  const lines = data.baselines.map((each) => ({
    name: each.name, tone: tones[each.name] || "--random", dash: [5, 4],
    points: data.days.map((at, index) => [at, each.usd[index]]),
  }));
  lines.push({ name: data.agent, tone: "--own", dash: [], points: data.equity });

  const drawdown = [];
  let peak = -Infinity;
  // What an insurance paid is no gain: the third value is equity without it.
  for (const [at, , usd] of data.equity) {
    peak = Math.max(peak, usd);
    drawdown.push([at, peak > 0 ? (usd - peak) / peak : 0]);
  }

  const money = (usd) => usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const stamp = (at, long) => new Date(at * 1000).toISOString().slice(0, long ? 16 : 10).replace("T", " ");

  // Where a moment stands in a sorted list of [moment, …]: the last entry at or before it.
  const seek = (list, at) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle][0] <= at) low = middle + 1; else high = middle;
    }
    return low - 1;
  };

  const prepared = (canvas) => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.lineJoin = "round";
    return { pen, width, height };
  };

  const axis = (low, high, most) => {
    const span = high - low || 1;
    const rough = span / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const ticks = [];
    for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(tick);
    return { ticks, digits: Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0))) };
  };

  const pane = (left, top, right, bottom, low, high) => ({
    left, top, right, bottom, low, high,
    x: (at) => left + ((at - view.from) / (view.to - view.from)) * (right - left),
    y: (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top),
    at: (x) => view.from + ((x - left) / (right - left)) * (view.to - view.from),
  });

  const gridded = (pen, area, label, most) => {
    const { ticks, digits } = axis(area.low, area.high, most);
    pen.strokeStyle = colour("--line");
    pen.fillStyle = colour("--muted");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const tick of ticks) {
      pen.beginPath();
      pen.moveTo(area.left, area.y(tick));
      pen.lineTo(area.right, area.y(tick));
      pen.stroke();
      pen.fillText(label(tick, digits), area.right + 5, area.y(tick));
    }
  };

  const dated = (pen, area, bottom) => {
    const steps = [300, 900, 3600, 4 * 3600, 12 * 3600, day, 2 * day, 7 * day, 14 * day, 30 * day, 91 * day, 365 * day];
    const room = Math.max(2, Math.floor((area.right - area.left) / 90));
    const step = steps.find((each) => (view.to - view.from) / each <= room) || steps[steps.length - 1];
    pen.fillStyle = colour("--muted");
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = area.x(at);
      if (x < area.left + 24 || x > area.right - 24) continue;
      pen.fillText(step < day ? stamp(at, true).slice(5) : stamp(at), x, bottom);
    }
  };

  const bounded = (pen, area) => {
    pen.strokeStyle = colour("--line");
    pen.setLineDash([2, 4]);
    for (const chunk of data.chunks) {
      if (chunk.start <= view.from || chunk.start >= view.to) continue;
      pen.beginPath();
      pen.moveTo(area.x(chunk.start), area.top);
      pen.lineTo(area.x(chunk.start), area.bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
  };

  const clipped = (pen, area, draw) => {
    pen.save();
    pen.beginPath();
    pen.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
    pen.clip();
    draw();
    pen.restore();
  };

  const visible = (points) => points.slice(Math.max(0, seek(points, view.from)), seek(points, view.to) + 2);

  const traced = (pen, area, points) => {
    pen.beginPath();
    points.forEach(([at, value], place) => {
      if (place) pen.lineTo(area.x(at), area.y(value)); else pen.moveTo(area.x(at), area.y(value));
    });
  };

  let equityArea = null;
  const drawEquity = () => {
    const { pen, width, height } = prepared(document.getElementById("equity"));
    const right = width - 62, split = Math.round(height * 0.7);
    const shown = lines.filter((line) => !hidden.has(line.name)).map((line) => ({ ...line, points: visible(line.points) }));
    const band = !hidden.has("90 of 100 random replays") && data.low.length > 0;
    const low = band ? visible(data.days.map((at, place) => [at, data.low[place]])) : [];
    const high = band ? visible(data.days.map((at, place) => [at, data.high[place]])) : [];
    const values = [...shown.flatMap((line) => line.points), ...low, ...high].map((point) => point[1]);
    const least = values.length ? Math.min(...values) : 0, most = values.length ? Math.max(...values) : 1;
    const spare = (most - least || Math.abs(most) || 1) * 0.06;
    const area = equityArea = pane(8, 10, right, split, least - spare, most + spare);
    gridded(pen, area, (tick, digits) => tick.toLocaleString("en-US", { maximumFractionDigits: digits }), 5);
    bounded(pen, area);
    clipped(pen, area, () => {
      if (band) {
        pen.fillStyle = colour("--band");
        traced(pen, area, high);
        for (const [at, value] of [...low].reverse()) pen.lineTo(area.x(at), area.y(value));
        pen.fill();
      }
      for (const line of shown) {
        pen.strokeStyle = colour(line.tone);
        pen.lineWidth = line.tone === "--own" ? 1.8 : 1.2;
        pen.setLineDash(line.dash);
        traced(pen, area, line.points);
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.lineWidth = 1;
    });
    const falls = visible(drawdown);
    const deepest = Math.min(-0.0001, ...falls.map((point) => point[1]));
    const below = pane(8, split + 12, right, height - 20, deepest * 1.05, 0);
    gridded(pen, below, (tick) => `${(100 * tick).toFixed(deepest > -0.02 ? 2 : 1)}%`, 3);
    bounded(pen, below);
    clipped(pen, below, () => {
      pen.fillStyle = colour("--down");
      pen.globalAlpha = 0.3;
      traced(pen, below, falls);
      if (falls.length) {
        pen.lineTo(below.x(falls[falls.length - 1][0]), below.y(0));
        pen.lineTo(below.x(falls[0][0]), below.y(0));
      }
      pen.fill();
      pen.globalAlpha = 1;
    });
    dated(pen, below, height - 6);
  };

  let marketArea = null, marks = [], candles = [];
  const drawMarket = () => {
    const { pen, width, height } = prepared(document.getElementById("market"));
    const market = data.markets[view.market];
    marks = [];
    if (!market) return;
    const right = width - 62;
    candles = grouped(market, Math.max(20, Math.floor((right - 8) / 5)));
    const trades = data.trades.filter((each) => each[0] === view.market && each[3] >= view.from && each[1] <= view.to);
    const values = candles.flatMap((each) => [each.low, each.high]);
    const least = values.length ? Math.min(...values) : 0, most = values.length ? Math.max(...values) : 1;
    const spare = (most - least || most || 1) * 0.06;
    const area = marketArea = pane(8, 10, right, height - 20, least - spare, most + spare);
    gridded(pen, area, (tick, digits) => tick.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }), 6);
    bounded(pen, area);
    clipped(pen, area, () => {
      for (const each of candles) {
        const x = area.x(each.at + each.span / 2);
        const half = Math.max(0.5, ((area.x(each.at + each.span) - area.x(each.at)) * 0.7) / 2);
        pen.strokeStyle = pen.fillStyle = colour(each.close >= each.open ? "--up" : "--down");
        pen.globalAlpha = trades.length > 60 ? 0.3 : 0.55;
        pen.beginPath();
        pen.moveTo(x, area.y(each.high));
        pen.lineTo(x, area.y(each.low));
        pen.stroke();
        const top = area.y(Math.max(each.open, each.close));
        pen.fillRect(x - half, top, 2 * half, Math.max(1, area.y(Math.min(each.open, each.close)) - top));
      }
      pen.globalAlpha = 1;
      for (const trade of trades) drawTrade(pen, area, trade, trades.length);
    });
    dated(pen, area, height - 6);
  };

  const grouped = (market, most) => {
    const first = Math.max(0, seek(market.rows, (view.from - market.at) / market.step));
    const last = seek(market.rows, (view.to - market.at) / market.step);
    const size = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [];
    for (let place = first; place <= last; place += size) {
      const part = market.rows.slice(place, Math.min(place + size, last + 1));
      if (!part.length) continue;
      found.push({
        at: market.at + part[0][0] * market.step, span: (part[part.length - 1][0] - part[0][0] + 1) * market.step,
        open: part[0][1], high: Math.max(...part.map((row) => row[2])),
        low: Math.min(...part.map((row) => row[3])), close: part[part.length - 1][4],
      });
    }
    return found;
  };

  const drawTrade = (pen, area, trade, count) => {
    const [, entered, bought, left, sold, side, net] = trade;
    const tone = colour(net > 0 ? "--up" : "--down");
    const from = { x: area.x(entered), y: area.y(bought) }, to = { x: area.x(left), y: area.y(sold) };
    const size = count > 200 ? 3.5 : count > 60 ? 4.5 : 5;
    pen.strokeStyle = pen.fillStyle = tone;
    pen.beginPath();
    pen.moveTo(from.x, from.y);
    pen.lineTo(to.x, to.y);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(from.x, from.y - side * size);
    pen.lineTo(from.x - size, from.y + side * size);
    pen.lineTo(from.x + size, from.y + side * size);
    pen.closePath();
    pen.moveTo(to.x + size * 0.6, to.y);
    pen.arc(to.x, to.y, size * 0.6, 0, 7);
    // A rim, since candles have the colours of trades.
    pen.strokeStyle = colour("--card");
    pen.lineWidth = 3;
    pen.stroke();
    pen.lineWidth = 1;
    pen.fill();
    marks.push({ x: from.x, y: from.y, trade }, { x: to.x, y: to.y, trade });
  };

  const draw = () => { drawEquity(); drawMarket(); pressRanges(); };
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };

  const move = (from, to) => {
    const least = 1800, most = whole.to - whole.from;
    const span = Math.min(most, Math.max(Math.min(least, most), to - from));
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(whole.from, middle - span / 2), whole.to - span);
    view.to = view.from + span;
    redraw();
  };
  const zoom = (factor, at) => move(at - (at - view.from) * factor, at + (view.to - at) * factor);

  const say = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const wide = tip.offsetWidth, tall = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 4))}px`;
    tip.style.top = `${Math.max(4, event.clientY + 14 + tall > innerHeight ? event.clientY - tall - 10 : event.clientY + 14)}px`;
  };

  const tellEquity = (event, x) => {
    if (!equityArea || x > equityArea.right) return say(event, "");
    const at = equityArea.at(x);
    const said = [stamp(at, true)];
    for (const line of [...lines].reverse()) {
      const place = seek(line.points, at);
      if (!hidden.has(line.name) && place >= 0) said.push(`${line.name} ${money(line.points[place][1])}`);
    }
    const place = seek(drawdown, at);
    if (place >= 0) said.push(`below its peak ${(100 * drawdown[place][1]).toFixed(2)}%`);
    say(event, said.join("\n"));
  };

  const tellMarket = (event, x, y) => {
    if (!marketArea || x > marketArea.right) return say(event, "");
    const near = marks.map((mark) => [Math.hypot(mark.x - x, mark.y - y), mark]).sort((one, other) => one[0] - other[0])[0];
    if (near && near[0] < 14) {
      const [, entered, bought, left, sold, side, net, usd, why] = near[1].trade;
      const ways = [`${side > 0 ? "long" : "short"} of ${usd.toLocaleString("en-US")} USD, net ${money(net)} USD`];
      ways.push(`in ${stamp(entered, true)} at ${bought}`, `out ${stamp(left, true)} at ${sold}`, why);
      return say(event, ways.join("\n"));
    }
    const at = marketArea.at(x);
    const bar = candles.find((each) => at >= each.at && at < each.at + each.span);
    say(event, bar ? `${stamp(bar.at, true)}\nopen ${bar.open}\nhigh ${bar.high}\nlow ${bar.low}\nclose ${bar.close}` : "");
  };

  const steer = (canvas, area, tell) => {
    const fingers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event.offsetX);
    });
    const lift = (event) => { fingers.delete(event.pointerId); if (event.pointerType !== "mouse") say(event, ""); };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", (event) => say(event, ""));
    canvas.addEventListener("pointermove", (event) => {
      const here = area();
      if (!here) return;
      const before = fingers.get(event.pointerId);
      if (before === undefined || fingers.size > 2) return tell(event, event.offsetX, event.offsetY);
      const width = here.right - here.left, span = view.to - view.from;
      if (fingers.size === 2) {
        const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
        const apart = Math.abs(event.offsetX - other);
        if (apart > 10) zoom(Math.abs(before - other) / apart, here.at((event.offsetX + other) / 2));
      } else {
        const by = ((before - event.offsetX) / width) * span;
        if (by) move(view.from + by, view.to + by);
        tell(event, event.offsetX, event.offsetY);
      }
      fingers.set(event.pointerId, event.offsetX);
    });
    canvas.addEventListener("wheel", (event) => {
      const here = area();
      // Without the key the wheel moves the page, as everywhere else.
      if (!here || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, here.at(event.offsetX));
    }, { passive: false });
  };

  const button = (place, text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    document.getElementById(place).append(made);
    return made;
  };

  const choice = (place, names, act) => {
    const made = document.createElement("select");
    names.forEach((name, index) => made.add(new Option(name, index)));
    made.addEventListener("change", () => act(Number(made.value)));
    document.getElementById(place).append(made);
  };

  // A single chunk is all there is.
  const spans = [{ name: "all", start: whole.from, end: whole.to }, ...(data.chunks.length > 1 ? data.chunks : [])];
  const show = (place) => move(spans[place].start, spans[place].end);
  const ranges = [];
  if (spans.length <= 9) spans.forEach((span, place) => ranges.push(button("ranges", span.name, () => show(place))));
  else choice("ranges", spans.map((span) => span.name), show);
  const pressRanges = () => ranges.forEach((made, place) => {
    const same = Math.abs(view.from - spans[place].start) < 1 && Math.abs(view.to - spans[place].end) < 1;
    made.setAttribute("aria-pressed", String(same));
  });

  const chooseMarket = (place) => { view.market = place; redraw(); };
  if (data.markets.length > 6) choice("symbols", data.markets.map((each) => each.symbol), chooseMarket);
  else {
    const made = data.markets.map((each, place) => button("symbols", each.symbol, () => {
      made.forEach((one, index) => one.setAttribute("aria-pressed", String(index === place)));
      chooseMarket(place);
    }));
    made.forEach((one, index) => one.setAttribute("aria-pressed", String(index === 0)));
  }
  const middle = () => (view.from + view.to) / 2;
  button("zoom", "closer", () => zoom(0.5, middle()));
  button("zoom", "wider", () => zoom(2, middle()));

  const legends = [...lines].reverse().map((line) => [line.name, line.tone]);
  if (data.low.length) legends.push(["90 of 100 random replays", "--band"]);
  for (const [name, tone] of legends) {
    const made = button("legend", name, () => {
      if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
      made.setAttribute("aria-pressed", String(!hidden.has(name)));
      redraw();
    });
    made.setAttribute("aria-pressed", "true");
    const swatch = document.createElement("i");
    swatch.style.background = `var(${tone})`;
    made.prepend(swatch);
  }

  steer(document.getElementById("equity"), () => equityArea, tellEquity);
  steer(document.getElementById("market"), () => marketArea, tellMarket);
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  draw();
})();
