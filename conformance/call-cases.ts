/** Cases of calls, and of errors of the conversation. */
import { type Case, callIdOf, expectData, failure, open, openWithCall, RPC, success, works } from './play.ts';
import { expectThat, type Request } from './played-server.ts';

export const CALLS: Case[] = [
  {
    name: 'calls/any-order',
    rule: 'has several calls under way, with ids of their own, and takes answers in any order',
    async play(stage) {
      const line = await open(stage);
      const names = ['a', 'b', 'c', 'd'];
      for (const name of names) stage.client.call(name, { path: name });
      const calls: Request[] = [];
      for (const _ of names) calls.push(await line.request('tools.call'));
      expectThat(new Set(calls.map((it) => it.id)).size === names.length, 'ids of requests must differ');
      expectThat(new Set(calls.map(callIdOf)).size === names.length, 'ids of calls must differ');
      for (const call of calls.toReversed()) line.answer(call, success(call, call.params.input));
      for (const name of names) expectData(await stage.client.result(name), { path: name });
    },
  },
  {
    name: 'calls/cancel',
    rule: 'cancels a running call by its callId, and still takes the answers of others',
    async play(stage) {
      const line = await open(stage);
      for (const name of ['a', 'b']) stage.client.call(name, { path: name });
      const calls = [await line.request('tools.call'), await line.request('tools.call')];
      // The requests may come in any order.
      const callOf = (name: string) => calls.find(({ params }) => (params.input as { path?: unknown }).path === name);
      const [first, second] = [callOf('a'), callOf('b')];
      expectThat(first !== undefined && second !== undefined, 'both calls must come with their input');
      stage.client.cancel('a');
      const cancel = await line.request('calls.cancel');
      expectThat(
        cancel.params.callId === callIdOf(first),
        `calls.cancel names ${JSON.stringify(cancel.params.callId)}, and not the call's id ${callIdOf(first)}`,
      );
      line.answer(cancel, { cancelled: true });
      line.answer(first, failure(first, 'CANCELLED', 'CANCELLED'));
      line.answer(second, success(second, { name: 'b' }));
      const { result } = await stage.client.outcome('a');
      expectThat(result?.success !== true, 'a cancelled call has no successful result');
      expectData(await stage.client.result('b'), { name: 'b' });
    },
  },
  {
    name: 'calls/failed-call',
    rule: 'gives a call that failed as a result with success: false, and not as an error of the conversation',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      line.answer(call, failure(call, 'POLICY_DENIED', 'PERMISSION'));
      const result = await stage.client.result('a');
      const { code } = (result.error ?? {}) as { code?: unknown };
      expectThat(
        result.success === false && code === 'POLICY_DENIED',
        `the result should have success: false and error.code POLICY_DENIED, and not ${JSON.stringify(result)}`,
      );
    },
  },
];

export const ERRORS: Case[] = [
  {
    name: 'errors/refused-request',
    rule: 'gives an error of the conversation with its code to the call it belongs to, and goes on',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      line.refuse(call, { code: RPC.invalidParams, message: 'played', data: { code: 'INVALID_PARAMS' } });
      const { code } = await stage.client.failure('a');
      expectThat(code === RPC.invalidParams, `failed.code should be ${RPC.invalidParams}, and not ${code}`);
      await works(line, stage.client);
    },
  },
  {
    name: 'errors/hello-refused',
    rule: 'tells why hello was refused, with the code',
    async play({ server, client }) {
      client.connect();
      const line = await server.connection();
      const hello = await line.request('hello');
      line.refuse(hello, { code: RPC.versionUnsupported, message: 'played', data: { code: 'VERSION_UNSUPPORTED' } });
      line.end();
      const { code } = await client.failure('connect');
      expectThat(code === RPC.versionUnsupported, `failed.code should be ${RPC.versionUnsupported}, and not ${code}`);
    },
  },
  {
    name: 'errors/answer-to-nothing',
    rule: 'survives an answer that it did not ask for: it goes on, or ends the connection and tells its calls',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      line.send({ id: 987_654, result: {} });
      line.answer(call, success(call, { content: 'x' }));
      await stage.client.outcome('a');
      await stage.client.close();
    },
  },
  {
    name: 'errors/error-of-the-connection',
    rule: 'tells its calls when the server ends the connection with an error that belongs to no request',
    async play(stage) {
      const { line } = await openWithCall(stage);
      line.send({ id: null, error: { code: -32700, message: 'played', data: { code: 'PARSE' } } });
      line.end();
      await stage.client.failure('a');
      await stage.client.close();
    },
  },
  {
    name: 'errors/session-closing',
    rule: 'tells its calls when the session is closed, and can be closed itself',
    async play(stage) {
      const { line } = await openWithCall(stage);
      line.send({ method: 'session.closing', params: { reason: 'played' } });
      line.end();
      await stage.client.failure('a');
      await stage.client.close();
    },
  },
];
