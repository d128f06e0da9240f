// Gives each line to copy a button; without it a click on the line selects all of it. Opens what a link leads into.
(function () {
  "use strict";
  var block = document.getElementById("report-data");
  if (!block) return;
  var words = JSON.parse(block.textContent).words;

  // A line to copy gets a button; a click on the line itself still selects all of it.
  function copyButton(line) {
    var button = document.createElement("button");
    button.className = "copy-button";
    button.textContent = words.copy;
    button.type = "button";
    button.addEventListener("click", function () {
      var selection = getSelection(), range = document.createRange();
      range.selectNodeContents(line.querySelector("code"));
      selection.removeAllRanges();
      selection.addRange(range);
      var done = document.execCommand("copy");
      button.textContent = done ? words.copied : words.selected;
      setTimeout(function () { button.textContent = words.copy; }, 2000);
    });
    line.appendChild(button);
  }

  // Not every browser opens a fold by itself when a link leads to a row in it.
  function unfold() {
    var target = document.querySelector(":target"), opened = false;
    for (var at = target; at; at = at.parentElement) {
      if (at.tagName === "DETAILS" && !at.open) opened = at.open = true;
    }
    if (opened) target.scrollIntoView();
  }

  Array.prototype.forEach.call(document.querySelectorAll(".copy"), copyButton);
  addEventListener("hashchange", unfold);
  unfold();
})();
