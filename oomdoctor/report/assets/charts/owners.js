// Who held what.
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
