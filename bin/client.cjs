// What `ringfence/client` is, for `import` and for `require`: an old Node would say only that it can't parse the code behind it.
'use strict';

const { isNewEnough, sentence } = require('./needed-node.cjs');

if (!isNewEnough()) throw new Error(sentence('ringfence/client'));
const client = require('../dist/src/entries/client.js');

// One by one, since `import` finds names by reading them here.
exports.Client = client.Client;
exports.RemoteError = client.RemoteError;
exports.createClient = client.createClient;
exports.toToolMessage = client.toToolMessage;
