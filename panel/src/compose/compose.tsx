/** Makes a batch by hand: tools are picked, outputs wired to inputs, the plan is seen, then it is run or saved. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { toProgram } from '../../../src/pipeline/batch/program.ts';
import { Graph } from '../batches/graph.tsx';
import { preciseDuration } from '../clock.ts';
import { saveFile } from '../parts/save-file.ts';
import {
  addStep,
  calls,
  inputs,
  loadTools,
  parametersFor,
  plan,
  planSoon,
  problem,
  run,
  runBatch,
  steps,
  tools,
  workspace,
} from './composed.ts';
import { Inputs, SaveTool } from './save-tool.tsx';
import { StepForm } from './step-form.tsx';
import { fromBatchFile, toBatchFile } from './steps.ts';

export function Compose() {
  const fault = useSignal<string | undefined>(undefined);
  useEffect(() => {
    if (tools.value.size > 0) return;
    loadTools().catch((error: Error) => (fault.value = error.message));
  }, []);
  useEffect(planSoon, [calls.value, inputs.value, workspace.value]);
  return (
    <>
      <div class="bar">
        <h1>Compose</h1>
      </div>
      <p class="dim">
        Add calls, and put outputs of earlier ones into their fields. Each call runs as soon as what it needs is there,
        and is judged as if an agent had made it.
      </p>
      <div class="bar">
        <AddStep />
        <label>
          Workspace{' '}
          <input
            value={workspace.value}
            placeholder="the daemon's first"
            onChange={(it) => (workspace.value = it.currentTarget.value)}
          />
        </label>
        {/* Without the tools, nothing is known of the fields of a file's calls. */}
        {tools.value.size > 0 && <Open onProblem={(it) => (fault.value = it)} />}
      </div>
      {fault.value && (
        <p class="failed" role="alert">
          {fault.value}
        </p>
      )}
      {steps.value.map((it, at) => (
        <StepForm key={at} step={it} />
      ))}
      {steps.value.length > 0 && (
        <>
          <Inputs />
          <PlanAndRun />
        </>
      )}
    </>
  );
}

function AddStep() {
  const tool = useSignal('');
  const byCategory = [...Map.groupBy(tools.value.values(), ({ category = 'other' }) => category)];
  return (
    <form
      class="bar"
      onSubmit={(it) => {
        it.preventDefault();
        if (tool.value) addStep(tool.value);
      }}
    >
      <label>
        Tool{' '}
        <select value={tool.value} onChange={(it) => (tool.value = it.currentTarget.value)}>
          <option value="">choose …</option>
          {byCategory.map(([category, all]) => (
            <optgroup label={category}>
              {all.map(({ name }) => (
                <option value={name}>{name}</option>
              ))}
            </optgroup>
          ))}
        </select>
      </label>
      <button type="submit" disabled={tool.value === ''}>
        Add the call
      </button>
    </form>
  );
}

function Open({ onProblem }: { onProblem: (reason: string | undefined) => void }) {
  const open = async (input: HTMLInputElement) => {
    const [file] = input.files ?? [];
    if (!file) return;
    try {
      steps.value = fromBatchFile(await file.text(), parametersFor);
      onProblem(undefined);
    } catch (error) {
      onProblem((error as Error).message);
    }
    input.value = '';
  };
  return (
    <label>
      Open a batch file <input type="file" accept="application/json" onChange={(it) => void open(it.currentTarget)} />
    </label>
  );
}

function PlanAndRun() {
  const found = plan.value;
  const shown = found?.calls.map((it) => ({
    ...it,
    kind: 'waits',
    time: [
      it.estimatedMs === undefined ? it.tool : `usually ${preciseDuration(it.estimatedMs)}`,
      ...(it.slackMs ? [`slack ${preciseDuration(it.slackMs)}`] : []),
    ].join(', '),
  }));
  return (
    <section>
      <h2>Plan</h2>
      <output aria-live="polite">
        {problem.value && <strong class="failed">{problem.value}</strong>}
        {found && (
          <>
            {found.levels.length} levels, critical path {found.criticalPath.join(' → ')},{' '}
            {found.estimatedMs === undefined
              ? 'no estimate: none of these tools ran in the last day'
              : `about ${preciseDuration(found.estimatedMs)}`}
          </>
        )}
      </output>
      {found && shown && <Graph calls={shown} criticalPath={found.criticalPath} />}
      <Actions />
      <SaveTool isReady={found !== undefined} />
    </section>
  );
}

function Actions() {
  const found = plan.value;
  const all = calls.value;
  const isReady = found !== undefined && typeof all !== 'string';
  const last = run.value;
  return (
    <div class="bar">
      <button type="button" class="yes" disabled={!isReady || last?.told === 'running'} onClick={() => void runBatch()}>
        Run
      </button>
      <button
        type="button"
        disabled={!isReady}
        onClick={() => isReady && saveFile('batch.json', 'application/json', [toBatchFile(all)])}
      >
        Save as batch file
      </button>
      <button
        type="button"
        disabled={!isReady}
        onClick={() => isReady && saveFile('program.js', 'text/javascript', [toProgram(all, found.levels.flat())])}
      >
        Save as program
      </button>
      <output aria-live="polite" class="run">
        {last && (
          <>
            <a href={`#/batches/${last.batchId}`}>This batch</a>: {last.told}
          </>
        )}
      </output>
    </div>
  );
}
