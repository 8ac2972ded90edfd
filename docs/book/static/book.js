// Excerpts in the search, where pages may be fetched: not on a disk.
if (location.protocol.startsWith("http")) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = true;

// The frames with step pages take the colours of the page.
addEventListener("DOMContentLoaded", () => {
  const frames = document.querySelectorAll("iframe.step");
  const tell = (frame) => frame.contentWindow.postMessage({theme: document.body.dataset.theme}, "*");
  frames.forEach((frame) => frame.addEventListener("load", () => tell(frame)));
  new MutationObserver(() => frames.forEach(tell)).observe(
    document.body, {attributeFilter: ["data-theme"]});
});

// What scrolls can be scrolled by keyboard.
addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll(".table-wrapper, .listing pre, .content pre"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
});
