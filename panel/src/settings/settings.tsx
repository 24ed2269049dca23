/** The view of settings: workspaces, names of secrets and the values in force, each with its source and the command that changes it. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { request } from '../connection.ts';
import { Table } from '../machine/table.tsx';
import type { Answer } from '../messages.ts';
import { Command } from '../parts/command.tsx';

type Read = Answer<'settings.read'>;
type Setting = Read['settings'][number];

const FROM: Readonly<Record<string, string>> = {
  flag: 'a flag of serve',
  environment: 'the environment',
  file: 'config.yaml',
  default: 'the default',
};

const wordsOf = (from: string): string => FROM[from] ?? from;

const LIMIT = 'limits.';

/** The value as a person reads it. */
function shown(value: Setting['value']): string {
  if (value === null || value === undefined || value === '') return 'none';
  if (Array.isArray(value) && value.length === 0) return 'none';
  if (Array.isArray(value) && value.every((it) => typeof it === 'string')) return value.join(', ');
  if (typeof value === 'object' && Object.keys(value).length === 0) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** An argument of a shell. */
const word = (text: string): string => (/^[\w./~:@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The command that changes a setting; undefined for what is chosen at the start. */
function changing({ key, from }: Pick<Setting, 'key' | 'from'>, file: string): string | undefined {
  if (key === 'policy') return 'ringfence policy set TOOL auto|ask|deny';
  if (key === 'file' || key === 'state' || key === 'socket' || from === 'flag' || from === 'environment')
    return undefined;
  return `$EDITOR ${word(file)} && ringfence config check && ringfence stop`;
}

export function Settings() {
  const read = useSignal<Read | undefined>(undefined);
  useEffect(() => {
    request('settings.read').then(
      (it) => (read.value = it),
      () => {}, // The connection is lost, which the page says already.
    );
  }, []);
  const { settings = [], workspaces = [], secrets = [] } = read.value ?? {};
  const named = settings.find(({ key }) => key === 'file')?.value;
  const file = typeof named === 'string' ? named : 'config.yaml';
  const others = settings.filter(({ key }) => !key.startsWith('workspaces'));
  const isOwn = ({ key, from }: Setting) => !key.startsWith(LIMIT) || from !== 'default';
  const standard = others.filter((it) => !isOwn(it));
  return (
    <>
      <div class="bar">
        <h1>Settings</h1>
        <p class="dim">Shown here, changed on the command line.</p>
      </div>
      <Table title="Workspaces: folders that agents may work in" heads={['Folder', 'From', 'Take away']} kind="stack">
        {workspaces.map(({ path, from }) => (
          <tr key={path}>
            <td>
              <code>{path}</code>
            </td>
            <td>{wordsOf(from)}</td>
            <td>
              {from === 'ringfence workspace add' ? (
                <Command>{`ringfence workspace remove ${word(path)}`}</Command>
              ) : (
                <Change command={changing({ key: 'workspaces', from }, file)} />
              )}
            </td>
          </tr>
        ))}
      </Table>
      <p class="next">
        Add a folder: <Command>ringfence workspace add DIR</Command>
      </p>
      {read.value && secrets.length === 0 && <h2>Secrets</h2>}
      <Table title="Secrets" heads={['Name', 'Kept in', 'Sent to', 'Remove']} kind="stack">
        {secrets.map(({ name, place, hosts }) => (
          <tr key={name}>
            <td>
              <code>{name}</code>
            </td>
            <td>{place === 'state' ? 'the state directory' : 'a command of config.yaml'}</td>
            <td>{hosts ? hosts.join(', ') : <span class="dim">no host yet</span>}</td>
            <td>{place === 'state' && <Command>{`ringfence secret remove ${word(name)}`}</Command>}</td>
          </tr>
        ))}
      </Table>
      <p class="next">
        {secrets.length === 0 ? 'No secret is stored. ' : 'No page and no agent sees a value. '}
        Store one: <Command>ringfence secret set NAME</Command>
      </p>
      <Rows title="In force" settings={others.filter(isOwn)} file={file} />
      {standard.length > 0 && (
        <details>
          <summary>{standard.length} limits that have their default</summary>
          <Rows title="Limits" settings={standard} file={file} />
        </details>
      )}
    </>
  );
}

const Rows = ({ title, settings, file }: { title: string; settings: readonly Setting[]; file: string }) => (
  <Table title={title} heads={['Setting', 'Value', 'From', 'Change it']} kind="stack">
    {settings.map((it) => (
      <tr key={it.key}>
        <td>{it.key}</td>
        <td>
          <code>{shown(it.value)}</code>
        </td>
        <td>{wordsOf(it.from)}</td>
        <td>
          <Change command={changing(it, file)} />
        </td>
      </tr>
    ))}
  </Table>
);

const Change = ({ command }: { command: string | undefined }) =>
  command ? <Command>{command}</Command> : <span class="dim">when it starts: ringfence serve</span>;
