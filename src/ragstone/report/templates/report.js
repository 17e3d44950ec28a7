"use strict";
(function () {
  var table = document.getElementById("samples");
  if (!table) { return; }
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var tools = document.getElementById("tools");
  var words = document.getElementById("filter");
  var which = document.getElementById("which");
  var shown = document.getElementById("shown");
  tools.hidden = false;

  function filter() {
    var wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var count = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase();
      var kinds = row.dataset.kinds.split(" ");
      var fits = (which.value === "all" || kinds.indexOf(which.value) >= 0) &&
        wanted.every(function (word) { return text.indexOf(word) >= 0; });
      row.hidden = !fits;
      count += fits ? 1 : 0;
    });
    shown.textContent = count + " of " + rows.length + " shown";
  }

  function sort(head, column) {
    var down = head.getAttribute("aria-sort") === "ascending";
    Array.prototype.forEach.call(head.parentNode.cells, function (cell) { cell.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    var numeric = head.classList.contains("number");
    var keys = new Map(rows.map(function (row) {
      var cell = row.cells[column];
      var key = cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
      return [row, numeric ? Number(key) : key];
    }));
    rows.sort(function (a, b) {
      var x = keys.get(a), y = keys.get(b);
      var order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () { sort(head, column); });
  });
  words.addEventListener("input", filter);
  which.addEventListener("change", filter);
  filter();
})();
