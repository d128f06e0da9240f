// Live memory by the stacks that allocated it.
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
