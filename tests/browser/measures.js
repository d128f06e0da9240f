// What the tests measure in a page: contrast as WCAG counts it, and how long a hover takes.
window.measures = {
  // Text whose contrast with what lies behind it is below AA, as `text: ratio`.
  contrast: function () {
    function numbers(colour) {
      var found = colour.match(/rgba?\(([^)]+)\)/);
      return found ? found[1].split(/[,/ ]+/).map(Number) : null;
    }
    function over(top, below) {
      var alpha = top.length > 3 ? top[3] : 1;
      return [0, 1, 2].map(function (place) { return top[place] * alpha + below[place] * (1 - alpha); });
    }
    function behind(element) {
      var layers = [];
      for (var at = element; at; at = at.parentElement) {
        var style = getComputedStyle(at);
        if (at.namespaceURI === "http://www.w3.org/2000/svg") {
          // A box of a picture: the rectangle beside the text.
          var box = at.tagName === "svg" && at !== element ? at.querySelector(":scope > rect") : null;
          var fill = box && getComputedStyle(box).fill;
          var solid = fill && fill !== "none" ? numbers(fill) : null;
          if (solid) { layers.push(solid); break; }
          continue;
        }
        var colour = numbers(style.backgroundColor);
        if (colour && (colour.length < 4 || colour[3] > 0)) {
          layers.push(colour);
          if (colour.length < 4 || colour[3] === 1) break;
        }
      }
      return layers.reverse().reduce(function (below, layer) { return over(layer, below); }, [255, 255, 255]);
    }
    function luminance(colour) {
      var parts = colour.slice(0, 3).map(function (value) {
        value /= 255;
        return value <= 0.04045 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4);
      });
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    }
    var failed = [], seen = 0, walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      var text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
      if (!text || !element || element.closest("script, style, title, desc, .hidden, .skip")) continue;
      if (!element.getClientRects().length) continue;
      var style = getComputedStyle(element);
      if (style.visibility !== "visible" || style.display === "none") continue;
      seen += 1;
      var isPicture = element.namespaceURI === "http://www.w3.org/2000/svg";
      var ground = behind(element), ink = over(numbers(isPicture ? style.fill : style.color) || [0, 0, 0], ground);
      var light = luminance(ink), dark = luminance(ground);
      var ratio = (Math.max(light, dark) + 0.05) / (Math.min(light, dark) + 0.05);
      var size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5) - 0.005) failed.push(text.slice(0, 40) + ": " + ratio.toFixed(2));
    }
    return { seen: seen, failed: failed };
  },

  // Milliseconds of script, style and layout for each of many moves of the pointer over a chart.
  hover: async function (selector, moves) {
    var over = document.querySelector(selector), box = over.getBoundingClientRect(), times = [];
    for (var move = 0; move < moves; move += 1) {
      var x = box.left + box.width * ((move * 37) % moves + 0.5) / moves, y = box.top + box.height / 2;
      var begin = performance.now();
      over.dispatchEvent(new MouseEvent("mousemove", { clientX: x, clientY: y, bubbles: true, view: window }));
      await Promise.resolve();
      document.body.getBoundingClientRect();
      times.push(performance.now() - begin);
      await new Promise(requestAnimationFrame);
    }
    return times.sort(function (one, other) { return one - other; });
  }
};
