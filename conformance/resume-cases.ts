/** Cases of connections that break, and of daemons that hand over. */
import {
  type Case,
  callIdOf,
  expectData,
  helloAnswer,
  openWithCall,
  RPC,
  SESSION,
  success,
  WATCH_MS,
  works,
} from './play.ts';
import { expectThat, type PlayedConnection, type PlayedServer } from './played-server.ts';

const RESUME_MS = 5000;

/**
 * Gives new sessions to a client whose session is gone, and watches that it makes no call again. It ends when `isOver`
 * and nothing more comes.
 */
async function runsNothing(
  server: PlayedServer,
  first: PlayedConnection | undefined,
  isOver: () => boolean,
): Promise<void> {
  for (let line = first; ; ) {
    const request = await line?.requestIfAny(WATCH_MS);
    // A client may connect again, use the connection that it has, or give up.
    const next = request ? undefined : await server.connectionIfAny(WATCH_MS);
    line = next ?? line;
    if (!request && !next && isOver()) return;
    if (!request) continue;
    expectThat(
      request.method !== 'tools.call',
      'a call was asked for again in another session, where it runs a second time',
    );
    if (request.method === 'hello') line?.answer(request, helloAnswer({ id: 'conform-session-2' }));
  }
}

export const RESUME: Case[] = [
  {
    name: 'resume/continues',
    rule: 'comes back with session and secret, asks again with the same callId, and gives the result once',
    async play(stage) {
      const { line, call: cutOff } = await openWithCall(stage, { resumeMs: RESUME_MS });
      line.cut();
      const again = await stage.server.connection();
      const hello = await again.request('hello');
      const { sessionId, secret } = (hello.params.resume ?? {}) as Record<string, unknown>;
      expectThat(
        sessionId === SESSION.id && secret === SESSION.secret,
        'the hello after a cut must have resume: {sessionId, secret} of the session',
      );
      again.answer(hello, helloAnswer({ resumeMs: RESUME_MS, resumed: { notices: 0, dropped: 0, subscriptions: 0 } }));
      const call = await again.request('tools.call');
      expectThat(
        callIdOf(call) === callIdOf(cutOff),
        'the call must be asked for again with its first callId, or it runs twice',
      );
      again.answer(call, success(call, { content: 'once' }));
      expectData(await stage.client.result('a'), { content: 'once' });
      await works(again, stage.client);
    },
  },
  {
    name: 'resume/session-gone',
    rule: 'asks for nothing again where its session is gone, and tells the calls that were cut off',
    async play(stage) {
      const { line } = await openWithCall(stage, { resumeMs: RESUME_MS });
      line.cut();
      const again = await stage.server.connection();
      const hello = await again.request('hello');
      again.refuse(hello, { code: RPC.forbidden, message: 'played', data: { code: 'FORBIDDEN' } });
      let isTold = false;
      const told = stage.client.failure('a').finally(() => {
        isTold = true;
      });
      await Promise.all([told, runsNothing(stage.server, again, () => isTold)]);
    },
  },
  {
    name: 'resume/not-asked-for',
    rule: 'without resumeMs asks for nothing again, and tells the calls that were cut off',
    async play(stage) {
      const { line } = await openWithCall(stage);
      line.cut();
      await stage.client.failure('a');
      await runsNothing(stage.server, undefined, () => true);
    },
  },
  {
    name: 'resume/upgrade',
    rule: 'repeats at the new daemon what one that hands over refused with OVERLOADED and reason upgrade',
    async play(stage) {
      const { line, call: refused } = await openWithCall(stage);
      const data = { code: 'OVERLOADED', reason: 'upgrade' };
      line.refuse(refused, { code: RPC.overloaded, message: 'a new daemon takes over', data });
      const again = await stage.server.connection();
      again.answer(await again.request('hello'), helloAnswer({ id: 'conform-session-2' }));
      await line.ended();
      const call = await again.request('tools.call');
      expectThat(callIdOf(call) === callIdOf(refused), 'the repeated call must have its first callId');
      again.answer(call, success(call, { content: 'new' }));
      expectData(await stage.client.result('a'), { content: 'new' });
    },
  },
];
