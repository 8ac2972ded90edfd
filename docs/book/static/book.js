// Excerpts in the search, where pages may be fetched: not on a disk.
if (location.protocol.startsWith("http")) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = true;
