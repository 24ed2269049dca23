/** Cases of frames, values and bounds. */
import { isDeepStrictEqual } from 'node:util';
import { type Case, expectData, open, openWithCall, success, watched, works } from './play.ts';
import { expectThat, frameOf, type Request } from './played-server.ts';

const MIB = 1024 * 1024;

export const FRAMING: Case[] = [
  {
    name: 'framing/hello',
    rule: 'says hello first, calls a tool with an id, and ends when it is told to close',
    async play(stage) {
      const line = await open(stage);
      const { client } = stage;
      client.call('a', { path: 'ä€😀.txt', maxLines: 3 });
      const call = await line.request('tools.call');
      const { tool, input } = call.params;
      expectThat(
        tool === 'file_read' && isDeepStrictEqual({ ...(input as object) }, { path: 'ä€😀.txt', maxLines: 3 }),
        `tool and input must arrive as they were given, and not as ${JSON.stringify({ tool, input })}`,
      );
      line.answer(call, success(call, { content: 'x' }));
      expectData(await client.result('a'), { content: 'x' });
      await client.close();
      await line.ended();
    },
  },
  {
    name: 'framing/every-byte-alone',
    rule: 'reads a frame that comes a byte at a time',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      await line.writeByteByByte(frameOf({ id: call.id, result: success(call, { content: 'ä€😀' }) }));
      expectData(await stage.client.result('a'), { content: 'ä€😀' });
    },
  },
  {
    name: 'framing/many-in-one-piece',
    rule: 'reads several frames, and a part of the next, that come in one piece',
    async play(stage) {
      const line = await open(stage);
      for (const name of ['a', 'b', 'c']) stage.client.call(name, { path: name });
      const calls: Request[] = [];
      for (let i = 0; i < 3; i++) calls.push(await line.request('tools.call'));
      const bytes = Buffer.concat(calls.map((it) => frameOf({ id: it.id, result: success(it, it.params.input) })));
      line.write(bytes.subarray(0, -3));
      const [, second = '', third = ''] = calls.map((it) => String((it.params.input as { path?: unknown }).path));
      expectData(await stage.client.result(second), { path: second });
      line.write(bytes.subarray(-3));
      expectData(await stage.client.result(third), { path: third });
    },
  },
  {
    name: 'framing/values',
    rule: 'reads every kind of value exactly: integers up to 2^53, floats, texts, bytes, nil',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      const numbers = [
        0,
        127,
        128,
        255,
        256,
        65_535,
        65_536,
        2 ** 31,
        2 ** 32,
        2 ** 53 - 1,
        -1,
        -32,
        -33,
        -129,
        -32_769,
        -(2 ** 53 - 1),
        1.5,
        -0.25,
        1e300,
      ];
      const texts = ['', 'ä€😀', 'x'.repeat(32), 'x'.repeat(300), 'x'.repeat(70_000)];
      const bytes = Buffer.from([0, 255, 128]);
      const rest = { numbers, texts, none: null, yes: true, no: false, list: [[], {}, [1, ['two']]] };
      line.answer(call, success(call, { ...rest, bytes }));
      expectData(await stage.client.result('a'), { ...rest, bytes: { $bytes: bytes.toString('base64') } });
    },
  },
  {
    name: 'framing/large-answer',
    rule: 'reads an answer of 15 MiB',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      const content = 'x'.repeat(15 * MIB);
      line.answer(call, success(call, { content }));
      expectThat((await stage.client.result('a')).data !== undefined, 'the result has no data');
      await works(line, stage.client);
    },
  },
  {
    name: 'framing/not-messagepack',
    rule: 'ends the connection at a frame that is no message, and tells its calls',
    async play(stage) {
      const { line } = await openWithCall(stage);
      line.write(Buffer.from([0, 0, 0, 2, 0xc1, 0xc1]));
      await stage.client.failure('a');
      await line.ended();
    },
  },
  {
    name: 'framing/half-a-frame',
    rule: 'tells its calls when the connection ends in the middle of a frame',
    async play(stage) {
      const { line, call } = await openWithCall(stage);
      line.write(frameOf({ id: call.id, result: success(call, {}) }).subarray(0, 10));
      line.end();
      await stage.client.failure('a');
      await stage.client.close();
    },
  },
  {
    name: 'framing/unknown-members',
    rule: 'ignores notifications and members that it does not know',
    async play(stage) {
      const line = await open(stage);
      line.send({ method: 'conform.unknown', params: { any: [1, 2] } });
      stage.client.call('a');
      const call = await line.request('tools.call');
      line.send({ method: 'conform.unknown' });
      line.send({
        id: call.id,
        result: { ...success(call, { content: 'x' }), conformUnknown: { a: 1 } },
        conformUnknown: 1,
      });
      expectData(await stage.client.result('a'), { content: 'x' });
    },
  },
];

export const LIMITS: Case[] = [
  {
    name: 'limits/frame-too-large',
    rule: 'ends the connection at a length over frameBytesMax, and tells its calls',
    async play(stage) {
      const { line } = await openWithCall(stage);
      line.write(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x81]));
      await stage.client.failure('a');
      await line.ended();
    },
  },
  {
    name: 'limits/request-too-large',
    rule: 'sends nothing over the frameBytesMax of hello, fails that call alone, and goes on',
    async play(stage) {
      const line = await open(stage, { frameBytesMax: 4096 });
      stage.client.call('a', { path: 'x'.repeat(10_000) });
      await stage.client.failure('a');
      await works(line, stage.client);
    },
  },
  {
    name: 'limits/slow-server',
    rule: 'sends every request once to a server that does not read for a while',
    async play(stage) {
      const line = await open(stage);
      line.pause();
      const names = Array.from({ length: 64 }, (_, at) => `c${at}`);
      for (const name of names) stage.client.call(name, { path: name, padding: 'x'.repeat(256 * 1024) });
      await watched();
      line.resume();
      const came = new Set<unknown>();
      for (const _ of names) {
        const call = await line.request('tools.call');
        const { path } = call.params.input as { path?: unknown };
        expectThat(!came.has(path), `call ${JSON.stringify(path)} came twice`);
        came.add(path);
        line.answer(call, success(call, { path }));
      }
      for (const name of names) expectData(await stage.client.result(name), { path: name });
    },
  },
];
