/**
 * The realm in which compartments of plugins live: locked down first, so that none can change what the others are given. Each
 * call gets a compartment of its own, whose globals are its own and hold nothing but the language.
 */
import 'ses';
import { parentPort } from 'node:worker_threads';
import type { FromThread, ToThread } from './compartment-messages.ts';
import { linkInCompartment } from './compartment-modules.ts';
import { type Deliver, guestScript } from './isolate-guest.ts';

const port = parentPort as NonNullable<typeof parentPort>;
// The stacks tell an author where the error is, and a plugin where our files lie in the sandbox: no secret.
lockdown({ errorTaming: 'unsafe', errorTrapping: 'none', unhandledRejectionTrapping: 'none', consoleTaming: 'unsafe' });
// A promise of a plugin's that nobody waits for is its own affair.
process.on('unhandledRejection', () => {});

const script = guestScript();
const send = (message: FromThread) => port.postMessage(message);
let deliver: Deliver | undefined;

type Guest = (send: (...words: string[]) => void, bounds: string) => Deliver;

function call({ id, plugin, input, guest, grant }: Extract<ToThread, { call: unknown }>['call']): void {
  const compartment = new Compartment();
  const wrap = compartment.evaluate(script) as Guest;
  // Only strings leave; whatever else a plugin may have got into the wrapper does not.
  const sent = harden((...words: unknown[]) => {
    if (words.every((it) => it === undefined || typeof it === 'string')) send({ id, sent: words as [string] });
  });
  const guestOf = wrap(sent, guest);
  deliver = guestOf;
  // What its modules throw is a stranger's like what the tool throws, and put into words where that is.
  guestOf('call', '', input, grant, async (value, context) => {
    const tool = await linkInCompartment(plugin, compartment);
    return tool(value, context);
  });
}

port.on('message', (message: ToThread) => {
  if ('call' in message) call(message.call);
  else if ('settle' in message) setImmediate(() => send({ id: message.settle, settled: true }));
  else deliver?.('answer', ...message.answer);
});
