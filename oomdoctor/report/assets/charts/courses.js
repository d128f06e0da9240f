// The memory of a place over the run: as areas by category, or as curves.
var DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

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
      drawAxes: [notSeen(chart)],
      draw: [
        horizontal(chart.limits, chart.strokes), vertical(chart.strokes, chart.numbers, [chart.begin, chart.end]),
        sampled(chart.samples),
        notSeenWord(chart, stacked ? columns[1] : [])
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
    label: area.name, spanGaps: true, fill: filled(area.colour), points: { show: false },
    // An edge as wide as the strips between two of them would cover them.
    width: area.values.length > 120 ? 0 : 0.6,
    stroke: function () { return colour("--panel"); }
  };
}
