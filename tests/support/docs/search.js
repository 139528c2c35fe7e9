// Asks the search of the built site, as its pages do: the worker of the theme, on the index that the build wrote.
//
//     node search.js SITE < queries.json > answers.json
//
// SITE: the folder of the site. Queries: a list of texts. Answers: for each text the locations of its results, best
// first. The worker speaks by messages: 0 an index, 1 ready, 2 a query, 3 its results, 4 a failure.
const fs = require("node:fs");
const path = require("node:path");

const site = process.argv[2];
const queries = JSON.parse(fs.readFileSync(0, "utf8"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));
const folder = path.join(site, "assets", "javascripts", "workers");
const [worker] = fs.readdirSync(folder).filter((name) => /^search\..*\.js$/.test(name));
const answers = [];

// What the theme's pages send beside the text (`filter` has no choice of tags in it).
const query = (input) => ({
  input,
  filter: {
    input: { type: "operator", data: { operator: "and", operands: [] } },
    aggregation: { input: [{ type: "term", data: { field: "tags" } }] },
  },
});

const ask = () => {
  if (answers.length === queries.length) process.stdout.write(JSON.stringify(answers));
  else globalThis.self.onmessage({ data: { type: 2, data: query(queries[answers.length]) } });
};

globalThis.self = {
  postMessage(message) {
    if (message.type === 4) throw new Error("the search of the site failed");
    if (message.type === 3) answers.push(message.data.items.map((item) => index.items[item.id].location));
    ask();
  },
};
new Function(fs.readFileSync(path.join(folder, worker), "utf8"))();
globalThis.self.onmessage({ data: { type: 0, data: index } });
