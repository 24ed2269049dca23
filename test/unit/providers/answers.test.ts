/** What counts as an answer to a request, however malformed. */
import { describe, expect, test } from 'vitest';
import { ResponseFilter } from '../../../workers/provider/answers.ts';

const asking = (...ids: number[]): ResponseFilter => {
  const answers = new ResponseFilter({ providerAwaitedMax: 1024 });
  for (const id of ids) answers.noteSent({ jsonrpc: '2.0', id, method: 'tools/call' });
  return answers;
};
const failed = (answers: ResponseFilter, text: string) =>
  answers.messagesIn(text).flatMap((it) => ('error' in it ? [it.id] : []));

describe('an answer that is no message of the protocol', () => {
  test.each([
    '{"jsonrpc":"2.0","id":7}',
    '{"jsonrpc":"1.0","id":7,"result":{}}',
    '{"id":7,"result":{}}',
    '{"jsonrpc":"2.0","id":7,"error":"no"}',
    '{"jsonrpc":"2.0","id":7,"error":{"message":"no"}}',
    '{"jsonrpc":"2.0","id":7,"result":3}',
    '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"te',
    '{"id":7,"jsonrpc":"2.0","result":{"content":',
    '{"result":{"content":[NaN]},"jsonrpc":"2.0","id":7}',
    '[{"jsonrpc":"2.0","id":7,"result":{}}]',
  ])('ends the request that it names: %s', (text) => {
    const answers = asking(6, 7);
    expect(failed(answers, text)).toEqual([7]);
    expect(failed(answers, text)).toEqual([]);
  });

  test.each([
    '{"jsonrpc":"2.0","id":9}',
    '{"level":30,"id":7,"msg":"a line of a log"}',
    '{"jsonrpc":"2.0","result":{"id":7,"text":"cut',
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7},"x',
    'listening on 7',
    '',
    '7',
    'null',
    '[7]',
  ])('ends nothing where it names none: %s', (text) => {
    expect(asking(6, 7).messagesIn(text)).toEqual([]);
  });

  test('ends nothing that was answered or cancelled before', () => {
    const answers = asking(7, 8);
    expect(answers.messagesIn('{"jsonrpc":"2.0","id":7,"result":{}}')).toHaveLength(1);
    answers.noteSent({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 8 } });
    expect(failed(answers, '[{"jsonrpc":"2.0","id":7},{"jsonrpc":"2.0","id":8}]')).toEqual([]);
  });

  test('a malformed answer fails the newest requests, however many were never answered', () => {
    const answers = asking(...Array.from({ length: 5000 }, (_, id) => id));
    expect(failed(answers, '{"jsonrpc":"2.0","id":0}')).toEqual([]);
    expect(failed(answers, '{"jsonrpc":"2.0","id":4999}')).toEqual([4999]);
  });
});
