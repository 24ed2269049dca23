/** The web panel: signs in, connects, and shows what the daemon tells. */
import { render } from 'preact';
import { App } from './app.tsx';
import { loadCalls } from './calls/all-calls.ts';
import { connect, request, signInProblem } from './connection.ts';
import { fleet } from './fleet/fleet-name.ts';
import { loadStatus } from './machine/status.ts';
import './notices.ts';
import { loadQuestions } from './questions.ts';
import { signIn } from './sign-in.ts';

/** Milliseconds between two updates of calls: more would be seen by nobody, and each costs the daemon time. */
const UPDATES_MS = 100;

async function loadAll(): Promise<void> {
  if (fleet.value !== undefined) return await loadQuestions();
  // Subscribed first, so that nothing falls between the list and the news.
  await request('events.subscribe', { topics: ['approvals', 'calls'], everyMs: UPDATES_MS });
  await Promise.all([loadQuestions(), loadCalls(), loadStatus()]);
}

// Not awaited at the top: parts of the page that are loaded later import from this file's chunk.
void signIn()
  .catch(() => 'The daemon does not answer.')
  .then((problem) => {
    signInProblem.value = problem;
    void connect(loadAll);
  });
render(<App />, document.getElementById('app') as HTMLElement);
