/**
 * The realm of plugin compartments: locked down first, so that no plugin can change what others get. Each call gets a
 * compartment of its own with its own globals, which hold only the language.
 */
import 'ses';
import { parentPort } from 'node:worker_threads';
import type { FromThread, ToThread } from './isolate/compartment-messages.ts';
import { linkInCompartment } from './isolate/compartment-modules.ts';
import { type Deliver, guestScript } from './isolate/program-wrapper.ts';
import type { UrlParts } from './isolate/url-globals.ts';
import { urlParts } from './isolate/url-parts.ts';

const port = parentPort as NonNullable<typeof parentPort>;
// Stack traces show authors where an error is; they also show plugins where our files are in the sandbox, which is no secret.
lockdown({ errorTaming: 'unsafe', errorTrapping: 'none', unhandledRejectionTrapping: 'none', consoleTaming: 'unsafe' });
// An unhandled rejection of a plugin's promise concerns only the plugin.
process.on('unhandledRejection', () => {});

const script = guestScript();
const send = (message: FromThread) => port.postMessage(message);
let deliver: Deliver | undefined;

type GuestSetup = (send: (...words: string[]) => void, urls: UrlParts, bounds: string) => Deliver;

function call({ id, plugin, input, guest, grant }: Extract<ToThread, { call: unknown }>['call']): void {
  const compartment = new Compartment();
  const wrap = compartment.evaluate(script) as GuestSetup;
  // Only strings leave, whatever else a plugin may have put into the wrapper.
  const sent = harden((...words: unknown[]) => {
    if (words.every((it) => it === undefined || typeof it === 'string')) send({ id, sent: words as [string] });
  });
  const guestOf = wrap(sent, harden(urlParts), guest);
  deliver = guestOf;
  // Errors of modules are untrusted, like those of the tool, and are put into words in the same place.
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
