// The search: chapters first, then guides and the other pages; reference and listings last.
const WEIGHTS = [[/^chapters\//, 8], [/^guide\//, 4], [/^(index|docs\/(?!bench|generated))/, 2],
                 [/^(api|source|docs\/|project|report)/, 0.1]];
var Scorer = {
  score: (result) => {
    const [, weight] = WEIGHTS.find(([place]) => place.test(result[0])) || [null, 1];
    if (/^#index-/.test(result[2])) result[2] = "";     // a word of a chapter: to its beginning
    return Math.ceil(result[4] * weight * 10);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
