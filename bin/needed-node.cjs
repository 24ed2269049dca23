// Plain JavaScript that any Node parses: an old one gets a sentence, and no stack trace.
'use strict';

/** The oldest Node that runs the daemon and the command line, and the oldest that runs the client. */
exports.NEEDED = { program: '26.0.0', client: '24.15.0' };

/** Undefined if the Node that runs this is new enough for `part`; else what to tell whoever uses `what` with it. */
exports.tooOld = (what, part) => {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const needed = exports.NEEDED[part];
  const [neededMajor, neededMinor] = needed.split('.').map(Number);
  if (major > neededMajor || (major === neededMajor && minor >= neededMinor)) return undefined;
  return `${what} needs Node.js ${needed} or newer; this is v${process.versions.node} (${process.execPath}).`;
};
