// What all views share: sizes and times as in the static pages, the page's own words, colours, elements.
var UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

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

// A time on an axis, exact to the axis' step: two ticks never read alike.
function tick(seconds, step) {
  var rest = Math.abs(seconds), exact = rest < 1 ? 1e-3 : rest < 10 ? 0.01 : rest < 120 ? 1 : 60;
  if (step >= exact) return relative(seconds);
  var places = step < 1 ? Math.min(Math.ceil(-Math.log10(step) - 1e-9), 6) : 0, sign = seconds < 0 ? "−" : "+";
  if (rest < 120) return sign + rest.toFixed(places) + " s";
  rest = Number(rest.toFixed(places));
  var whole = Math.floor(rest / 60), left = (rest - 60 * whole).toFixed(places);
  return sign + duration(60 * whole) + (Number(left) ? " " + left + " s" : "");
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

function label(group, text, y, width) {
  var room = Math.floor((width - 10) / 6.6);
  var made = document.createElementNS(group.namespaceURI, "text");
  made.setAttribute("x", "6");
  made.setAttribute("y", String(y));
  made.textContent = text.length > room ? text.slice(0, Math.max(room - 1, 1)) + "…" : text;
  group.appendChild(made);
}
