// Live memory while its history was recorded.
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
    hooks: { draw: [bands(chart.bands), numbered(chart, sums), vertical(chart.timed && chart.failed ? [{ at: 0, kind: "failure" }] : [])] },
    label: chart.timed ? relative : function (event) { return say(words.event, { number: event.toLocaleString("en") }); },
    rows: function (at) {
      return [[words.all, sums[sums.length - 1][at]]].concat(
        order.map(function (place) { return [chart.areas[place].name, chart.areas[place].values[at]]; })
      );
    }
  }, [chart.times].concat(order.map(function (place) { return sums[place]; })), chart.title);
}
