// Plain JavaScript that any Node parses: an old one gets a sentence, and no stack trace or pages of a compiler's output.
// Run by npm before it installs the package, and loaded by what people start and import.
'use strict';

const { existsSync } = require('node:fs');
const { join } = require('node:path');

/** The oldest Node that runs the code; `engines` of package.json says the same. */
const NEEDED = '24.15.0';

/** Whether the Node that runs this is new enough. */
exports.isNewEnough = () => {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const [neededMajor, neededMinor] = NEEDED.split('.').map(Number);
  return major > neededMajor || (major === neededMajor && minor >= neededMinor);
};

/** What to tell whoever uses `what` with an old Node. */
exports.sentence = (what) =>
  `${what} needs Node.js ${NEEDED} or newer; this is v${process.versions.node} (${process.execPath}).`;

// A checkout brings a Node of its own, so that an old npm may install it.
const isCheckout = existsSync(join(__dirname, '../src'));
if (require.main === module && !isCheckout && !exports.isNewEnough()) {
  console.error(exports.sentence('ringfence'));
  process.exitCode = 1;
}
