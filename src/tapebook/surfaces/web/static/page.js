// What the page does by itself: the theme, keys for every page, and rows of long lists fetched as they are scrolled to.
(() => {
  const shown = () => document.querySelectorAll(".tb-nav a[data-key]");

  window.tapebookTheme = () => {
    const dark = document.body.classList.contains("body--dark");
    document.cookie = `theme=${dark ? "light" : "dark"};path=/;max-age=31536000;samesite=strict`;
    location.reload();
  };

  // A list is read by cursors, so a place in it is reached from the nearest one known before it.
  window.tapebookRows = (address, size) => {
    const cursors = [""];
    const fetchPart = async (part) => {
      const before = cursors[part] ? `&before=${encodeURIComponent(cursors[part])}` : "";
      const answer = await fetch(`${address}most=${size}${before}`);
      if (!answer.ok) throw new Error(`the list cannot be read: ${answer.status}`);
      const page = await answer.json();
      cursors[part + 1] = page.next;
      return page;
    };
    return {
      rowCount: undefined,
      getRows: async (params) => {
        try {
          const part = Math.floor(params.startRow / size);
          while (cursors.length <= part) await fetchPart(cursors.length - 1);
          const page = await fetchPart(part);
          params.successCallback(page.rows, page.next ? -1 : params.startRow + page.rows.length);
        } catch (error) {
          params.failCallback();
        }
      },
    };
  };

  const open = (row) => {
    if (row && row.entry_snapshot_id) location.href = `/decisions/${encodeURIComponent(row.entry_snapshot_id)}`;
  };
  window.tapebookCells = {
    amount: (cell) => cell.value == null ? "" : cell.value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
    result: (cell) => cell.value == null ? "" : (cell.value > 0 ? "▲ +" : cell.value < 0 ? "▼ " : "") + window.tapebookCells.amount(cell),
    tone: (cell) => cell.value > 0 ? "num tb-up" : cell.value < 0 ? "num tb-down" : "num",
    price: (cell) => cell.value == null ? "" : Number(cell.value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 8 }),
    moment: (cell) => cell.value ? cell.value.slice(0, 16).replace("T", " ") : "",
    words: (cell) => (cell.value || "").replaceAll("_", " "),
    open: (event) => open(event.data),
    openByKey: (event) => { if (event.event.key === "Enter") open(event.data); },
  };

  // What somebody opened or closed stays so when its part is drawn anew.
  const opened = new Map();
  document.addEventListener("toggle", (event) => {
    const name = event.target.dataset && event.target.dataset.keep;
    if (name && event.target.isConnected) opened.set(name, event.target.open);
  }, true);
  // Whatever is new, and not only what is still out of sight: a part may be put in its place together with its content.
  new MutationObserver((changes) => {
    const added = changes.flatMap((change) => [...change.addedNodes]).filter((node) => node instanceof Element);
    for (const part of added.flatMap((node) => [node, ...node.querySelectorAll("details[data-keep]")]))
      if (part.matches("details[data-keep]") && opened.has(part.dataset.keep)) part.open = opened.get(part.dataset.keep);
  }).observe(document.documentElement, { childList: true, subtree: true });

  let waiting = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === "g") { waiting = Date.now(); return; }
    if (event.key === "t") { window.tapebookTheme(); return; }
    if (Date.now() - waiting < 1500) {
      for (const link of shown()) if (link.dataset.key === event.key) { location.href = link.href; return; }
    }
    waiting = 0;
  });
  // On a phone the pages are a row that scrolls: the one that is open should be seen in it.
  const reveal = (tries) => {
    const here = document.querySelector(".tb-nav [aria-current=page]");
    if (here) here.scrollIntoView({ inline: "center", block: "nearest" });
    else if (tries) setTimeout(() => reveal(tries - 1), 50);
  };
  document.addEventListener("DOMContentLoaded", () => reveal(100));
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-switch]")) window.tapebookTheme();
  });
})();
