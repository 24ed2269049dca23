// Asks a person about each call that waits, and sends the answer. Replace `ask` by a message to a chat and its reply.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { createClient } from 'ringfence/client';

const [socket = '', state = ''] = process.argv.slice(2);
// Only the owner of the daemon can read the token: an agent can't answer for its person.
const token = readFileSync(`${state}/operator.token`, 'utf8').trim();
await using operator = await createClient({ socket, role: 'operator', token, name: 'approval-bot' });

const person = createInterface({ input: process.stdin, output: process.stdout });
const ask = (question: string, signal: AbortSignal) => person.question(question, { signal });

using watch = await operator.onApproval(async ({ tool, input, reason }, over) => {
  const question = `${tool} ${JSON.stringify(input)}\n  asked about because: ${reason}\n  allow? [y/n/why not] `;
  try {
    const answer = (await ask(question, over)).trim();
    if (/^y(es)?$/i.test(answer)) return { decision: 'approve' };
    // The agent reads why, and can do something else.
    return { decision: 'deny', ...(!/^no?$/i.test(answer) && { feedback: answer }) };
  } catch {
    return undefined; // Answered elsewhere, or the call is gone.
  }
});
console.log('waiting for questions');
person.once('close', () => watch[Symbol.dispose]());
await watch.ended;
