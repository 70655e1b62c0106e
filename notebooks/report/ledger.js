(() => {
  const form = document.querySelector(".filter");
  const rows = [...document.querySelectorAll(".ledger tbody tr")].map((row) => ({
    row, ...row.dataset, equations: +row.dataset.equations, text: row.textContent.toLowerCase(),
  }));
  const total = rows.reduce((sum, { equations }) => sum + equations, 0);

  function filter() {
    const words = form.elements.text.value.toLowerCase().split(/\s+/);
    const paper = form.elements.paper.value, verdict = form.elements.verdict.value;
    const counts = {};
    let shown = 0;
    for (const entry of rows) {
      const keep = (!paper || entry.paper === paper) && (!verdict || entry.verdict === verdict)
        && words.every((word) => entry.text.includes(word));
      entry.row.hidden = !keep;
      if (!keep) continue;
      shown += entry.equations;
      counts[entry.verdict] = (counts[entry.verdict] || 0) + entry.equations;
    }
    const names = [...form.elements.verdict.options].map((option) => option.value);
    const parts = names.filter((name) => counts[name]).map((name) => `${counts[name]} ${name}`);
    form.querySelector("output").value = [`${shown} of ${total} statements`, ...parts].join(", ");
  }

  function reveal() {  // a link to a row that the filter hides
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.hidden) return;
    form.reset();
    filter();
    target.scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", reveal);
  filter();
})();
