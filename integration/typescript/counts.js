// Counts words on the Job service at an address, and checks the counts in the pipeline.
//
//   node counts.js HOST:PORT 2     the last argument is how often "be" is to be there

const beam = require("apache-beam");
const { PortableRunner } = require("apache-beam/runners/portable_runner/runner");
const { countPerElement } = require("apache-beam/transforms/group_and_combine");
const { assertDeepEqual } = require("apache-beam/testing/assert");

const [jobEndpoint, times] = process.argv.slice(2);
const options = { jobEndpoint, jobName: "counts", environmentType: "LOOPBACK" };

function counts(root) {
  root
    .apply(beam.create(["to be or", "not to be"]))
    .flatMap(beam.withName("split", (line) => line.split(" ")))
    .apply(countPerElement())
    .map(beam.withName("tell", (pair) => pair.element + ": " + pair.count))
    .apply(assertDeepEqual(["to: 2", "be: " + times, "or: 1", "not: 1"]));
}

new PortableRunner(options)
  .run(counts, options)
  .then((result) => result.getState())
  .then(
    (state) => {
      console.log("state", state.state);
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    }
  );
