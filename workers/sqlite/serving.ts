/** Serves the requests of a host in a process that runs statements. */
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import type { Answered, StatementRequests } from './messages.ts';
import { Refused } from './refusals.ts';

export type Handlers<R extends StatementRequests<R>> = {
  readonly [M in keyof R]: (asked: R[M]['asked']) => R[M]['answer'] | Promise<R[M]['answer']>;
};

/** Answers each request by the handler of its method, over standard input and output. */
export function serveStatements<R extends StatementRequests<R>>(handlers: Handlers<R>): void {
  const connection = createMessageConnection(
    new StreamMessageReader(process.stdin),
    new StreamMessageWriter(process.stdout),
  );
  for (const [method, handle] of Object.entries(handlers))
    connection.onRequest(
      method,
      (asked: object): Promise<object> => answered(() => (handle as (it: object) => unknown)(asked)),
    );
  connection.listen();
}

/** Gives refusals as data: an error response would lose their code. */
async function answered<T>(work: () => T): Promise<Answered<Awaited<T>>> {
  try {
    return { answer: await work() };
  } catch (error) {
    if (error instanceof Refused) return { refused: error.refusal };
    throw error;
  }
}
