// Draws the report's charts anew so that they can be zoomed and read by pointer and keyboard.
// Without it everything stands in the page as static pictures and tables. No markup is built from data.
(function () {
  "use strict";
  var block = document.getElementById("report-data");
  if (!block || typeof uPlot === "undefined") return;
  var data = JSON.parse(block.textContent), words = data.words;
  var UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  var DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
  var HEIGHT = 220;

  // A half goes to the even neighbour, as in the static pages; toFixed would round it up.
  function hundredths(value) {
    var scaled = value * 100, low = Math.floor(scaled);
    return ((scaled - low === 0.5 ? low + (low % 2) : Math.round(scaled)) / 100).toFixed(2);
  }

  function size(bytes) {
    if (bytes === null || bytes === undefined) return "";
    var rest = Math.abs(bytes), unit = 0;
    while (rest >= 1024 * 0.99995 && unit < UNITS.length - 1) { rest /= 1024; unit += 1; }
    return (bytes < 0 ? "-" : "") + (unit ? hundredths(rest) : String(Math.round(rest))) + " " + UNITS[unit];
  }

  function duration(seconds) {
    if (seconds < 1e-3) return (seconds * 1e6).toFixed(0) + " µs";
    if (seconds < 1) return (seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 0) + " ms";
    if (seconds < 10) return seconds.toFixed(2) + " s";
    if (seconds < 120) return seconds.toFixed(0) + " s";
    var minutes = Math.round(seconds / 60);
    if (minutes < 120) return minutes + " min";
    return Math.floor(minutes / 60) + " h " + ("0" + (minutes % 60)).slice(-2) + " min";
  }

  function relative(seconds) {
    if (seconds === 0) return "0";
    return (seconds < 0 ? "−" : "+") + duration(Math.abs(seconds));
  }

  // The page's own sentences, with their placeholders filled.
  function say(sentence, values) {
    return sentence.replace(/\{(\w+)\}/g, function (_, name) { return values[name]; });
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function element(tag, className, text) {
    var made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Steps of a byte axis: powers of two and their doubles, as in the static pictures.
  function byteSplits(plot, axis, low, high) {
    var step = Math.pow(2, Math.floor(Math.log2(Math.max(high - low, 4) / 2.5)));
    var found = [];
    for (var at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
    return found;
  }

  function axes(timed, unitless) {
    var look = { stroke: function () { return colour("--soft"); }, grid: { stroke: function () { return colour("--line"); }, width: 1 }, ticks: { show: false } };
    return [
      Object.assign({}, look, { size: 28, space: 92, values: function (plot, at) { return at.map(timed ? relative : unitless); } }),
      Object.assign({}, look, { size: 82, splits: byteSplits, values: function (plot, at) { return at.map(size); } })
    ];
  }

  var STROKES = {
    failure: ["--alarm", [6, 4]], kill: ["--alarm", []], retry: ["--curve-1", [6, 4]], phase: ["--soft", [2, 3]],
    recovered: ["--soft", [2, 3]]
  };

  // Events as vertical lines; their numbers stand over the picture, as in the table of events.
  function vertical(strokes, numbers, span) {
    return function (plot) {
      var context = plot.ctx, box = plot.bbox, ratio = devicePixelRatio;
      function place(at) { return Math.round(plot.valToPos(at, "x", true)); }
      function inside(x) { return x >= box.left && x <= box.left + box.width; }
      context.save();
      strokes.forEach(function (stroke) {
        var x = place(stroke.at), look = STROKES[stroke.kind] || STROKES.phase;
        if (!inside(x)) return;
        context.strokeStyle = colour(look[0]);
        context.setLineDash(look[1].map(function (length) { return length * ratio; }));
        context.lineWidth = ratio;
        context.beginPath();
        context.moveTo(x, box.top);
        context.lineTo(x, box.top + box.height);
        context.stroke();
      });
      context.fillStyle = colour("--ink");
      context.font = "600 " + 11.5 * ratio + "px system-ui, sans-serif";
      context.textBaseline = "bottom";
      // Those that would cover each other share a place, as in the static picture: `3–7`.
      var shown = [];
      (numbers || []).forEach(function (number) {
        var x = place(span[0] + number.at * (span[1] - span[0])), last = shown[shown.length - 1];
        if (!inside(x)) return;
        var ends = number.text.split("–"), right = x + context.measureText(number.text).width;
        if (last && x - last.right < 4 * ratio) {
          last.end = ends[ends.length - 1];
          last.right = last.x + context.measureText(last.begin + "–" + last.end).width;
        } else {
          shown.push({ x: x, begin: ends[0], end: ends[ends.length - 1], right: right });
        }
      });
      shown.forEach(function (each) {
        var text = each.begin === each.end ? each.begin : each.begin + "–" + each.end, x = each.x;
        context.textAlign = x - box.left < 12 * ratio ? "left" : box.left + box.width - x < 24 * ratio ? "right" : "center";
        context.fillText(text, x, box.top - 3 * ratio);
      });
      context.restore();
    };
  }

  // The samples that evidence names, by their letters; that to which a link has led is drawn larger.
  function sampled(samples) {
    return function (plot) {
      var context = plot.ctx, box = plot.bbox, ratio = devicePixelRatio;
      samples.forEach(function (sample) {
        var x = plot.valToPos(sample.at, "x", true), y = plot.valToPos(sample.bytes, "y", true);
        if (x < box.left || x > box.left + box.width) return;
        var meant = location.hash === "#" + sample.id, right = x > box.left + box.width / 2;
        context.save();
        context.beginPath();
        context.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
        context.fillStyle = colour("--page");
        context.strokeStyle = colour(meant ? "--accent" : "--ink");
        context.lineWidth = (meant ? 5 : 1.5) * ratio;
        context.stroke();
        context.fill();
        context.font = "600 " + 12.5 * ratio + "px system-ui, sans-serif";
        context.textAlign = right ? "right" : "left";
        context.strokeStyle = colour("--page");
        context.lineWidth = 4 * ratio;
        context.fillStyle = colour("--ink");
        y += (y - box.top < box.height * 0.15 ? 14 : -4) * ratio;
        x += (right ? -1 : 1) * (8 + 11 * sample.beside) * ratio;
        context.strokeText(sample.letter, x, y);
        context.fillText(sample.letter, x, y);
        context.restore();
      });
    };
  }

  function horizontal(limits) {
    return function (plot) {
      var context = plot.ctx;
      limits.forEach(function (limit) {
        var y = Math.round(plot.valToPos(limit, "y", true));
        if (y < plot.bbox.top || y > plot.bbox.top + plot.bbox.height) return;
        context.save();
        context.strokeStyle = colour("--alarm");
        context.setLineDash([6, 4]);
        context.beginPath();
        context.moveTo(plot.bbox.left, y);
        context.lineTo(plot.bbox.left + plot.bbox.width, y);
        context.stroke();
        context.restore();
      });
    };
  }

  var plots = [];

  // Puts a chart in place of the static picture, which stays for print.
  function mount(id, options, columns, describe) {
    var picture = document.querySelector('svg[aria-labelledby^="' + id + '-t"]');
    if (!picture) return;
    var holder = element("div", "live");
    holder.tabIndex = 0;
    holder.setAttribute("role", "group");
    holder.setAttribute("aria-label", say(words.keys, { picture: describe }));
    var told = element("output", "reading");
    picture.parentNode.insertBefore(holder, picture);
    picture.classList.add("static");
    options.width = Math.max(holder.clientWidth, 240);
    options.height = HEIGHT;
    options.legend = { show: false };
    options.hooks = options.hooks || {};
    options.hooks.setCursor = [function (plot) { tell(plot, told, options); }];
    var plot = new uPlot(options, columns, holder);
    holder.appendChild(told);
    plot.holder = holder;
    holder.addEventListener("keydown", function (event) { steer(plot, event); });
    plots.push(plot);
    return plot;
  }

  // Charts of one clock move together. Those that nobody sees do not follow the pointer: it would cost as much again for
  // each of them.
  var together = uPlot.sync("time"), zooming = false;
  var watch = new IntersectionObserver(function (changes) {
    changes.forEach(function (change) {
      var plot = change.target.plot;
      if (change.isIntersecting) together.sub(plot); else together.unsub(plot);
    });
  });

  function join(plot) {
    plot.clock = true;
    plot.holder.plot = plot;
    together.unsub(plot);
    watch.observe(plot.holder);
  }

  function zoomTogether(plot, name) {
    if (name !== "x" || zooming || !plot.clock) return;
    zooming = true;
    plots.forEach(function (other) {
      if (other !== plot && other.clock) other.setScale("x", { min: plot.scales.x.min, max: plot.scales.x.max });
    });
    zooming = false;
  }

  function tell(plot, told, options) {
    var at = plot.cursor.idx;
    if (at === null || at === undefined) { told.textContent = ""; return; }
    var parts = [options.label(plot.data[0][at])];
    options.rows(at).forEach(function (row) {
      if (row[1] !== null && row[1] !== undefined) parts.push(row[0] + " " + size(row[1]));
    });
    told.textContent = parts.join("  ·  ");
  }

  function steer(plot, event) {
    var times = plot.data[0], scale = plot.scales.x, at = plot.cursor.idx;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      var next = at === null || at === undefined ? times.length - 1 : at + (event.key === "ArrowLeft" ? -1 : 1);
      next = Math.min(Math.max(next, 0), times.length - 1);
      plot.setCursor({ left: plot.valToPos(times[next], "x"), top: plot.over.clientHeight / 2 });
    } else if (event.key === "+" || event.key === "-") {
      var middle = at === null || at === undefined ? (scale.min + scale.max) / 2 : times[at];
      var half = (scale.max - scale.min) * (event.key === "+" ? 0.25 : 1);
      plot.setScale("x", {
        min: Math.max(middle - half, times[0]), max: Math.min(middle + half, times[times.length - 1])
      });
    } else if (event.key === "Escape") {
      plot.setScale("x", { min: times[0], max: times[times.length - 1] });
    } else {
      return;
    }
    event.preventDefault();
  }

  // Numbers are in the data as the first and by how much each is more than the one before.
  function summed(steps, unit) {
    var value = 0;
    return steps.map(function (step) { value += step; return value * unit; });
  }

  function curveChart(chart) {
    var stacked = chart.areas.length > 0, below = null;
    var areas = chart.areas.map(function (area) {
      var values = summed(area.values, data.unit);
      below = below ? below.map(function (value, at) { return value + values[at]; }) : values;
      return { name: area.name, colour: area.colour, values: values, sums: below };
    });
    // Drawn from the top down: each reaches to the axis, and the lower ones lie over it.
    var order = areas.slice().reverse(), times = summed(chart.times, 1e-4);
    var tables = stacked
      ? [[times].concat(order.map(function (area) { return area.sums; }))]
      : chart.curves.map(function (curve) {
        return [summed(curve.times, 1e-4), curve.values.map(function (value) { return value * data.unit; })];
      });
    var shown = stacked ? order.length : tables.length;
    // The ends of the time axis, which all charts of one clock share.
    var columns = uPlot.join(tables.concat([[[chart.begin, chart.end], [null, null]]])).slice(0, shown + 1);
    var heights = areas.map(function (area) { return uPlot.join([[times, area.values], [columns[0], columns[0]]])[1]; });
    var plot = mount(chart.id, {
      cursor: { sync: { key: chart.dated ? "time" : null }, drag: { x: true, y: false }, points: { show: false } },
      scales: { x: { time: false }, y: { range: [0, chart.ceiling] } },
      axes: axes(true),
      series: [{}].concat(stacked ? order.map(areaSeries) : chart.curves.map(function (curve) {
        return {
          label: curve.name, spanGaps: true, width: 1.8, dash: DASHES[curve.place], points: { show: false },
          stroke: function () { return colour("--curve-" + curve.place); }
        };
      })),
      padding: [16, null, null, null],
      hooks: {
        draw: [
          horizontal(chart.limits), vertical(chart.strokes, chart.numbers, [chart.begin, chart.end]), sampled(chart.samples)
        ],
        setScale: [zoomTogether]
      },
      label: relative,
      rows: function (at) {
        return (stacked ? areas : chart.curves).map(function (each, place) {
          return [each.name, stacked ? heights[place][at] : columns[place + 1][at]];
        });
      }
    }, columns, chart.where);
    if (plot && chart.dated) join(plot);
  }

  function areaSeries(area) {
    return {
      label: area.name, spanGaps: true, fill: area.colour, points: { show: false },
      // An edge as wide as the strips between two of them would cover them.
      width: area.values.length > 120 ? 0 : 0.6,
      stroke: function () { return colour("--panel"); }
    };
  }

  // What the program did when, in rows over the areas; a name stands where there is room for it.
  function bands(rows) {
    return function (plot) {
      var ctx = plot.ctx, box = plot.bbox, ratio = devicePixelRatio || 1, high = 15 * ratio;
      ctx.save();
      ctx.font = 11.5 * ratio + "px system-ui, sans-serif";
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      rows.forEach(function (row, place) {
        row.forEach(function (band) {
          var left = Math.max(plot.valToPos(band.begin, "x", true), box.left);
          var wide = Math.min(plot.valToPos(band.end, "x", true), box.left + box.width) - left;
          if (wide < 1) return;
          var top = box.top + place * (high + 2 * ratio);
          ctx.fillStyle = colour(place ? "--mark" : "--accent-soft");
          ctx.fillRect(left, top, wide, high);
          ctx.strokeStyle = colour("--page");
          ctx.strokeRect(left, top, wide, high);
          ctx.fillStyle = colour("--ink");
          if (ctx.measureText(band.name).width + 6 * ratio < wide) ctx.fillText(band.name, left + 4 * ratio, top + high / 2);
        });
      });
      ctx.restore();
    };
  }

  // Areas lie on each other: each curve is the sum of its own area and those below, drawn from the top down.
  function areaChart(chart) {
    var sums = [], below = chart.times.map(function () { return 0; });
    chart.areas.forEach(function (area) {
      below = below.map(function (value, at) { return value + area.values[at]; });
      sums.push(below);
    });
    var order = chart.areas.map(function (_, place) { return place; }).reverse();
    mount(chart.id, {
      cursor: { drag: { x: true, y: false }, points: { show: false } },
      scales: { x: { time: false }, y: { range: function (plot, low, high) {
        return [0, Math.max(high * (1.04 + 0.1 * chart.bands.length), 1)];
      } } },
      axes: axes(chart.timed, function (event) { return event.toLocaleString("en"); }),
      series: [{}].concat(order.map(function (place) { return areaSeries(chart.areas[place]); })),
      hooks: { draw: [bands(chart.bands), vertical(chart.timed && chart.failed ? [{ at: 0, kind: "failure" }] : [])] },
      label: chart.timed ? relative : function (event) { return say(words.event, { number: event.toLocaleString("en") }); },
      rows: function (at) {
        return [[words.all, sums[sums.length - 1][at]]].concat(
          order.map(function (place) { return [chart.areas[place].name, chart.areas[place].values[at]]; })
        );
      }
    }, [chart.times].concat(order.map(function (place) { return sums[place]; })), chart.title);
  }

  // Who held what, as nested rectangles. A category opens by click or Enter; Escape goes back.
  function ownerMap(place, before) {
    var holder = element("figure", "owners live");
    var caption = element("figcaption");
    caption.appendChild(element("strong", "", place.where));
    var hint = element("span", "", words.hint);
    caption.appendChild(hint);
    var canvas = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    canvas.setAttribute("class", "treemap");
    canvas.setAttribute("width", "100%");
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", say(words.held, { place: place.where }));
    var told = element("output", "reading");
    holder.appendChild(caption);
    holder.appendChild(canvas);
    holder.appendChild(told);
    before.parentNode.insertBefore(holder, before);
    var opened = null;

    function open(category) { opened = category; draw(); }

    function draw() {
      var width = Math.max(holder.clientWidth, 240), height = Math.min(320, Math.max(180, width * 0.4));
      canvas.setAttribute("height", String(height));
      canvas.textContent = "";
      var shown = opened ? { children: [opened] } : { children: place.children };
      var root = d3.hierarchy(shown).sum(function (node) { return node.bytes || 0; })
        .sort(function (a, b) { return b.value - a.value; });
      d3.treemap().size([width, height]).paddingInner(1).paddingOuter(1).round(true)(root);
      root.leaves().forEach(function (leaf) {
        var category = leaf.parent.data.name;
        var reading = say(words.owner, { owner: leaf.data.name, size: size(leaf.value), category: category, how: leaf.data.how });
        var group = document.createElementNS(canvas.namespaceURI, "svg");
        var wide = leaf.x1 - leaf.x0, high = leaf.y1 - leaf.y0;
        [["x", leaf.x0], ["y", leaf.y0], ["width", wide], ["height", high]].forEach(function (pair) {
          group.setAttribute(pair[0], String(pair[1]));
        });
        group.setAttribute("tabindex", "0");
        group.setAttribute("role", "button");
        group.setAttribute("aria-label", reading);
        var box = document.createElementNS(canvas.namespaceURI, "rect");
        box.setAttribute("width", "100%");
        box.setAttribute("height", "100%");
        box.setAttribute("fill", data.colours[category] || "#c2c888");
        group.appendChild(box);
        if (wide > 70 && high > 20) {
          label(group, leaf.data.name, 15, wide);
          if (high > 36) label(group, size(leaf.value), 30, wide);
        }
        function read() { told.textContent = reading; }
        group.addEventListener("pointerenter", read);
        group.addEventListener("focus", read);
        group.addEventListener("click", function () { open(opened ? null : leaf.parent.data); });
        group.addEventListener("keydown", function (event) {
          if (event.key === "Enter") open(opened ? null : leaf.parent.data);
          else if (event.key === "Escape") open(null);
          else return;
          event.preventDefault();
          var first = canvas.querySelector("[tabindex]");
          if (first) first.focus();
        });
        canvas.appendChild(group);
      });
    }

    draw();
    return draw;
  }

  function label(group, text, y, width) {
    var room = Math.floor((width - 10) / 6.6);
    var made = document.createElementNS(group.namespaceURI, "text");
    made.setAttribute("x", "6");
    made.setAttribute("y", String(y));
    made.textContent = text.length > room ? text.slice(0, Math.max(room - 1, 1)) + "…" : text;
    group.appendChild(made);
  }

  // Live memory by stack. A frame opens over the whole width by click or Enter; Escape goes back to all of it.
  function stackChart(tree) {
    var picture = document.querySelector('svg[aria-labelledby^="' + tree.id + '-t"]');
    if (!picture) return null;
    var ROW = 26;
    var holder = element("div", "live frames");
    var canvas = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    canvas.setAttribute("class", "stacks");
    canvas.setAttribute("width", "100%");
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", say(words.stacks, { place: tree.where }));
    var told = element("output", "reading");
    holder.appendChild(canvas);
    holder.appendChild(told);
    picture.parentNode.insertBefore(holder, picture);
    picture.classList.add("static");
    // The static picture says all: of each box where it lies, how wide it is, and its text.
    var boxes = Array.prototype.map.call(picture.querySelectorAll("svg"), function (box) {
      var text = box.querySelector("text");
      return {
        start: parseFloat(box.getAttribute("x")), width: parseFloat(box.getAttribute("width")),
        depth: Number(box.getAttribute("y")) / ROW, fill: box.querySelector("rect").getAttribute("fill"),
        name: text ? text.textContent : box.getAttribute("data-name"), full: box.querySelector("title").textContent
      };
    });
    var all = { start: 0, width: 100, depth: 0 }, opened = all;

    function open(box) { opened = box; draw(); }

    function draw() {
      var wide = Math.max(holder.clientWidth, 240), end = opened.start + opened.width, rows = 0;
      canvas.textContent = "";
      boxes.forEach(function (each) {
        if (each.depth < opened.depth || each.start + each.width <= opened.start + 1e-6 || each.start >= end - 1e-6) return;
        var shown = Math.min(each.width, opened.width) / opened.width * wide;
        if (shown < 0.5) return;
        var group = document.createElementNS(canvas.namespaceURI, "svg"), row = each.depth - opened.depth;
        rows = Math.max(rows, row + 1);
        [["x", (each.start - opened.start) / opened.width * wide], ["y", row * ROW], ["width", shown], ["height", ROW - 1]]
          .forEach(function (pair) { group.setAttribute(pair[0], String(pair[1])); });
        group.setAttribute("tabindex", "0");
        group.setAttribute("role", "button");
        group.setAttribute("aria-label", each.full);
        var box = document.createElementNS(canvas.namespaceURI, "rect");
        box.setAttribute("class", "edge");
        box.setAttribute("width", "100%");
        box.setAttribute("height", "100%");
        box.setAttribute("fill", each.fill);
        group.appendChild(box);
        if (shown > 60) label(group, each.name, 17, shown);
        function read() { told.textContent = each.full; }
        function toggle() { open(each === opened ? all : each); }
        group.addEventListener("pointerenter", read);
        group.addEventListener("focus", read);
        group.addEventListener("click", toggle);
        group.addEventListener("keydown", function (event) {
          if (event.key === "Enter") toggle();
          else if (event.key === "Escape") open(all);
          else return;
          event.preventDefault();
          var first = canvas.querySelector("[tabindex]");
          if (first) first.focus();
        });
        canvas.appendChild(group);
      });
      canvas.setAttribute("height", String(ROW * Math.max(rows, 1)));
    }

    draw();
    return draw;
  }

  data.charts.forEach(curveChart);
  data.windows.forEach(areaChart);
  var holdings = document.getElementById("holdings");
  var redraws = holdings ? data.owners.map(function (place) {
    return ownerMap(place, holdings.parentNode.querySelector("table"));
  }) : [];
  redraws = redraws.concat(data.stacks.map(stackChart).filter(Boolean));

  var waiting = 0;
  addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () {
      plots.forEach(function (plot) { plot.setSize({ width: Math.max(plot.holder.clientWidth, 240), height: HEIGHT }); });
      redraws.forEach(function (draw) { draw(); });
    }, 100);
  });
  addEventListener("hashchange", function () {
    plots.forEach(function (plot) { plot.redraw(false, false); });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    plots.forEach(function (plot) { plot.redraw(false, true); });
  });
})();
