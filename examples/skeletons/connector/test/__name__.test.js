import { deepEqual, equal, partialDeepStrictEqual } from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { testConnector } from 'ringfence/testing';

/** Plays the service: one item, and a new one. */
function service({ method, path }) {
  if (method === 'POST' && path === '/v1/items') return { status: 201, body: { id: 8 } };
  if (path === '/v1/items/7') return { body: { title: 'Tea', open: true, internal: 'not for agents' } };
  return { status: 404, body: { message: 'no such item' } };
}

let added;
before(async () => {
  const file = fileURLToPath(new URL('../connector.yaml', import.meta.url));
  added = await testConnector(file, { service, secrets: { __name___key: 'key-of-the-test' }, approvals: ['approve'] });
});
after(() => added?.close());

test('gives of an item what the file names, and no more', async () => {
  const { data } = await added.call('get_item', { id: 7 });
  deepEqual({ ...data }, { title: 'Tea', open: true });
  equal(added.requests[0].headers.authorization, 'Bearer key-of-the-test');
});

test('fails where the service does not know the item', async () => {
  const { error } = await added.call('get_item', { id: 9 });
  equal(error.code, 'NOT_FOUND');
});

test('creates an item when a person approves it', async () => {
  partialDeepStrictEqual(await added.call('create_item', { title: 'Bread' }), { success: true, data: { id: 8 } });
  deepEqual(added.requests.at(-1).json, { title: 'Bread' });
  const { error } = await added.call('create_item', { title: 'Bread' });
  equal(error.code, 'APPROVAL_DENIED');
});

test('keeps what every tool promises', () => added.assertContract());
