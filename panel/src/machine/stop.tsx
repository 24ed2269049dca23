/** Keeps calls from beginning, ends all that run, and lets them go on. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import { loadStatus, status } from './status.ts';

/** Milliseconds for which the button is held, so that no slip stops everybody's work. */
const HOLD_MS = 1_000;

/** Pauses the daemon, or resumes it if it is paused. */
export async function pauseOrResume(): Promise<void> {
  await request(status.value?.paused ? 'gateway.resume' : 'gateway.pause').catch(() => {}); // The connection is lost, which the page says.
  await loadStatus().catch(() => {}); // As above.
}

export function Stop() {
  const told = useSignal<string | undefined>(undefined);
  const act = async (work: () => Promise<string>) => {
    try {
      told.value = await work();
      await loadStatus();
    } catch (error) {
      told.value = `That did not work: ${(error as Error).message}`;
    }
  };
  const pause = (cancel: boolean) =>
    act(async () => {
      const { cancelled } = await request('gateway.pause', { cancel });
      return cancel ? `Ended ${cancelled} calls. No call begins until you resume.` : 'No call begins until you resume.';
    });
  const resume = () =>
    act(async () => {
      await request('gateway.resume');
      return 'Calls begin again.';
    });
  const paused = status.value?.paused;
  return (
    <>
      <div class="bar">
        <h1>Stop</h1>
      </div>
      <p>
        {paused ? (
          <strong class="warn">
            Paused since {timeOf(paused.at)} by {paused.by}: no call begins.
          </strong>
        ) : (
          'Calls run as the policy says.'
        )}
      </p>
      <div class="bar">
        <HoldButton onHeld={() => void pause(true)}>Hold for a second to stop all calls</HoldButton>
        {paused ? (
          <button type="button" class="yes" onClick={() => void resume()}>
            Resume
          </button>
        ) : (
          <button type="button" onClick={() => void pause(false)}>
            Pause: let no call begin
          </button>
        )}
      </div>
      <output aria-live="polite">{told.value}</output>
      <p class="dim">
        Stopping ends every call that runs, waits or is asked about, in all sessions, and pauses. Questions of ended
        calls are withdrawn. The same: <code>ringfence pause --stop</code>, <code>ringfence resume</code>.
      </p>
    </>
  );
}

/** A button that acts when it was held down for a second, by pointer or by Space or Enter. */
export function HoldButton({ onHeld, children }: { onHeld: () => void; children: ComponentChildren }) {
  const held = useSignal(false);
  const timer = useRef<number>(undefined);
  const release = () => {
    clearTimeout(timer.current);
    timer.current = undefined;
    held.value = false;
  };
  const press = () => {
    if (timer.current !== undefined) return;
    held.value = true;
    timer.current = setTimeout(() => {
      release();
      onHeld();
    }, HOLD_MS);
  };
  useEffect(() => release, []);
  const isKey = ({ key }: KeyboardEvent) => key === ' ' || key === 'Enter';
  return (
    <button
      type="button"
      class={`no hold ${held.value ? 'held' : ''}`}
      onPointerDown={press}
      onPointerUp={release}
      onPointerLeave={release}
      onBlur={release}
      onKeyDown={(it) => isKey(it) && press()}
      onKeyUp={(it) => isKey(it) && release()}
    >
      {children}
    </button>
  );
}
