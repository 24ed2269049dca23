/** Views that are loaded when somebody looks at them, so that the first one is there sooner. */
import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';

/** A component whose code is loaded when it is shown first. */
export function lazy<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  const state = signal<{ readonly view: FunctionComponent<P> } | 'unasked' | 'loading' | 'failed'>('unasked');
  const begin = () => {
    state.value = 'loading';
    load().then(
      (view) => {
        state.value = { view };
      },
      () => {
        state.value = 'failed';
      },
    );
  };
  return (props) => {
    const is = state.value;
    if (is === 'unasked') queueMicrotask(begin);
    if (is === 'failed') return <Failed />;
    if (typeof is === 'string') return <p>Loading …</p>;
    return <is.view {...props} />;
  };
}

/** After an upgrade, the daemon has the files of its own page only. */
function Failed() {
  return (
    <>
      <p role="alert">This part of the page could not be loaded. The daemon may have a newer page.</p>
      <button type="button" onClick={() => location.reload()}>
        Load the page again
      </button>
    </>
  );
}
