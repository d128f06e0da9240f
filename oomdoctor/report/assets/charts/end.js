// All views of the page.
// A chart in a closed fold has no width to be drawn in, and nobody waits for it.
data.charts.forEach(function (chart) {
  var picture = document.querySelector('svg[aria-labelledby^="' + chart.id + '-t"]');
  var fold = picture && picture.closest("details:not([open])");
  if (!fold) { curveChart(chart); return; }
  fold.addEventListener("toggle", function open() {
    fold.removeEventListener("toggle", open);
    curveChart(chart);
  });
});
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
