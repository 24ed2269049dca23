// What `ringfence/client` is, for `import` and for `require`: an old Node would say only that it can't parse the code behind it.
'use strict';

const { tooOld } = require('./needed-node.cjs');

const refusal = tooOld('ringfence/client', 'client');
if (refusal !== undefined) throw new Error(refusal);
const client = require('../dist/src/entries/client.js');

// One by one, since `import` finds names by reading them here.
exports.Client = client.Client;
exports.RemoteError = client.RemoteError;
exports.createClient = client.createClient;
exports.toToolMessage = client.toToolMessage;
