// Puts a chart in place of its static picture; those of one clock are zoomed and read together.
var HEIGHT = 220;
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
