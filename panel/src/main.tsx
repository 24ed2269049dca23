/** The web panel: signs in, connects, and shows what the daemon tells. */
import { render } from 'preact';
import { App, signInProblem } from './app.tsx';
import { loadCalls } from './calls/all-calls.ts';
import { connect, request } from './connection.ts';
import { loadStatus } from './machine/status.ts';
import './notices.ts';
import { loadQuestions } from './questions.ts';
import { signIn } from './sign-in.ts';

async function loadAll(): Promise<void> {
  // Subscribed first, so that nothing falls between the list and the news.
  await request('events.subscribe', { topics: ['approvals', 'calls'] });
  await Promise.all([loadQuestions(), loadCalls(), loadStatus()]);
}

// Not awaited at the top: parts of the page that are loaded later import from this file's chunk.
void signIn()
  .catch(() => 'The daemon does not answer.')
  .then((problem) => {
    signInProblem.value = problem;
    connect(loadAll);
  });
render(<App />, document.getElementById('app') as HTMLElement);
