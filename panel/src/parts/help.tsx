/** All keys of the page, in a dialog that `?` opens. */
import { useRef } from 'preact/hooks';
import { useKeys } from './keys.ts';

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ['j k', 'the next, the one before'],
  ['y s p', 'allow once, for the session, for the project'],
  ['n N', 'deny, deny for the session'],
  ['e', 'everything about the question'],
  ['u', 'undo'],
  ['.', 'pause or resume all'],
  ['/', 'search'],
  ['?', 'these keys'],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useKeys({
    '?': () => (dialog.current?.open ? dialog.current.close() : dialog.current?.showModal()),
    '/': () => document.querySelector<HTMLInputElement>('main input[type=search]')?.focus(),
  });
  return (
    <dialog ref={dialog} aria-label="Keys">
      <dl class="facts">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>
              {keys.split(' ').map((it) => (
                <>
                  <kbd>{it}</kbd>{' '}
                </>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
    </dialog>
  );
}
