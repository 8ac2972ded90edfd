// The search: chapters first, then guides and the other pages; reference and listings last.
const WEIGHTS = [[/^chapters\//, 8], [/^guide\//, 4], [/^(index|docs\/(?!bench|generated))/, 2],
                 [/^(api|source|docs\/|project|report)/, 0.1]];
var Scorer = {
  score: ([page, title, anchor, about, score]) => {
    const [, weight] = WEIGHTS.find(([place]) => place.test(page)) || [null, 1];
    return Math.ceil(score * weight * 10);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
