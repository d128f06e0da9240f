// Draws the report's charts anew so that they can be zoomed and read by pointer and keyboard. Without it everything
// stands in the page as static pictures and tables. No markup is built from data. `begin` to `end` are one function.
var block = document.getElementById("report-data");
if (!block || typeof uPlot === "undefined") return;
var data = JSON.parse(block.textContent), words = data.words;
