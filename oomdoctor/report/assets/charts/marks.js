// What stands in a chart besides its curves: axes, events, named samples, limits, phases, what was not seen.
// Steps of a byte axis: powers of two and their doubles, as in the static pictures.
function byteSplits(plot, axis, low, high) {
  var step = Math.pow(2, Math.floor(Math.log2(Math.max(high - low, 4) / 2.5)));
  var found = [];
  for (var at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// Steps of a time axis: whole seconds, minutes, hours and days.
var TIME_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200];
for (var days = 1; days <= 1024; days *= 2) TIME_STEPS.push(days * 86400);
for (var below = -1; below >= -6; below -= 1) TIME_STEPS.unshift(Number("1e" + below), Number("2e" + below), Number("5e" + below));

function axes(timed, unitless) {
  var look = { stroke: function () { return colour("--soft"); }, grid: { stroke: function () { return colour("--line"); }, width: 1 }, ticks: { show: false } };
  return [
    Object.assign({}, look, timed ? { incrs: TIME_STEPS } : {}, {
      size: 28, space: 92,
      values: function (plot, at, axis, space, step) {
        return at.map(timed ? function (each) { return tick(each, step); } : unitless);
      }
    }),
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

// Their names stand left of events near the right edge, whose lines and numbers would run through them.
function horizontal(limits, strokes) {
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
      context.fillStyle = colour("--alarm");
      context.font = "600 " + 11.5 * devicePixelRatio + "px system-ui, sans-serif";
      context.textAlign = "right";
      context.textBaseline = "bottom";
      var end = plot.bbox.left + plot.bbox.width, beside = strokes.reduce(function (found, stroke) {
        var x = plot.valToPos(stroke.at, "x", true);
        return x > plot.bbox.left + 0.8 * plot.bbox.width && x <= end ? Math.min(x - (x < end ? 8 : 24) * devicePixelRatio, found) : found;
      }, end);
      context.fillText(say(words.limit, { size: size(limit) }), beside, y - 3 * devicePixelRatio);
      context.restore();
    });
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

// Numbers of areas where they are highest of what is shown: those of one category have one colour.
function numbered(chart, sums) {
  return function (plot) {
    var context = plot.ctx, box = plot.bbox, ratio = devicePixelRatio || 1, scale = plot.scales.x;
    context.save();
    context.font = "600 " + 11.5 * ratio + "px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    chart.areas.forEach(function (area, place) {
      if (!area.number) return;
      var highest = -1;
      area.values.forEach(function (value, at) {
        var shown = chart.times[at] >= scale.min && chart.times[at] <= scale.max;
        if (shown && (highest < 0 || value > area.values[highest])) highest = at;
      });
      if (highest < 0) return;
      var top = plot.valToPos(sums[place][highest], "y", true);
      var foot = plot.valToPos(sums[place][highest] - area.values[highest], "y", true);
      if (foot - top < 16 * ratio) return;
      var x = plot.valToPos(chart.times[highest], "x", true);
      x += (x < box.left + box.width / 2 ? 9 : -9) * ratio;
      // On its own ground: the area may be narrower than the number.
      context.fillStyle = area.colour;
      context.fillRect(x - 7 * ratio, (top + foot) / 2 - 8 * ratio, 14 * ratio, 16 * ratio);
      context.fillStyle = "#14171c";
      context.fillText(area.number, x, (top + foot) / 2);
    });
    context.restore();
  };
}

// A tile of a category's colour with the pattern that tells it from those near to it, as in the static pictures.
function tile(fill, pattern) {
  var ratio = devicePixelRatio || 1, wide = Math.round((pattern === "unattributed" ? 6 : 9) * ratio);
  var made = element("canvas"), context = made.getContext("2d");
  made.width = made.height = wide;
  if (fill) {
    context.fillStyle = fill;
    context.fillRect(0, 0, wide, wide);
  }
  context.strokeStyle = fill ? "rgba(20, 23, 28, .55)" : "rgba(128, 136, 144, .5)";
  context.fillStyle = context.strokeStyle;
  context.lineWidth = ratio;
  context.beginPath();
  if (pattern === "unattributed") {
    context.arc(wide / 3, wide / 3, ratio, 0, 2 * Math.PI);
    context.fill();
    return made;
  }
  [-wide, 0, wide].forEach(function (shift) {
    context.moveTo(shift - 1, wide + 1);
    context.lineTo(shift + wide + 1, -1);
  });
  context.stroke();
  return made;
}

function filled(fill) {
  var pattern = data.patterns[fill], made = null;
  if (!pattern) return fill;
  return function (plot) { return made || (made = plot.ctx.createPattern(tile(fill, pattern), "repeat")); };
}

// What nobody looked at: the place's space over areas that are no whole, which are drawn over it, and the time before
// the first look and after the last.
function notSeen(chart) {
  return function (plot) {
    var context = plot.ctx, box = plot.bbox, right = box.left + box.width;
    function hatch(from, to, bytes) {
      var top = plot.valToPos(bytes, "y", true);
      from = Math.max(from, box.left);
      if (Math.min(to, right) > from) context.fillRect(from, top, Math.min(to, right) - from, box.top + box.height - top);
    }
    context.save();
    context.fillStyle = context.createPattern(tile("", "unseen"), "repeat");
    if (chart.unseen) hatch(box.left, right, chart.unseen);
    chart.gaps.forEach(function (gap) {
      hatch(plot.valToPos(gap[0], "x", true), plot.valToPos(gap[1], "x", true), gap[2]);
    });
    context.restore();
  };
}

// The word for it, where there is room over the areas in the middle of what is shown.
function notSeenWord(chart, sums) {
  return function (plot) {
    if (!chart.unseen || !sums.length) return;
    var context = plot.ctx, box = plot.bbox, ratio = devicePixelRatio || 1;
    var middle = box.left + box.width / 2, at = plot.posToIdx(box.width / 2 / ratio);
    var top = plot.valToPos(chart.unseen, "y", true), foot = plot.valToPos(sums[at] || 0, "y", true);
    if (foot - top < 24 * ratio) return;
    context.save();
    context.font = 12.5 * ratio + "px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.strokeStyle = colour("--page");
    context.lineWidth = 5 * ratio;
    context.fillStyle = colour("--soft");
    context.strokeText(words.unseen, middle, (top + foot) / 2);
    context.fillText(words.unseen, middle, (top + foot) / 2);
    context.restore();
  };
}
