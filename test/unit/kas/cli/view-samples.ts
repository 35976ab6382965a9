import type { Test } from 'tap'
import type { Update } from '../../../../src/proto/views-json.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { checkedOutput } from '../../../support/output-schema.ts'
import { at, fullEventList, fullList, fullState, fullTree } from '../modules/views/cli/full-view.ts'
import { startViewsServer } from '../modules/views/cli/views-server.ts'

/** Commands that show a cluster, each with the agent's answer. */

export interface ViewSample {
  /** Name of the command in doc/reference/output.md. */
  readonly command: string
  /** arguments, without `-o` */
  readonly argv: readonly string[]
  readonly update: Omit<Update, 'at'>
  /** exit code */
  readonly code: number
}

const { refused: _, unknown: __, ...readable } = fullState
const isHere = { ...readable, aside: (readable.aside ?? []).slice(1) }
/** in this state no health is known */
const stale = { ...readable, is: 'stale', why: 'the agent is away' } as const

export const viewSamples: readonly ViewSample[] = [
  { command: 'kas get', argv: ['get', 'deploy'], update: fullList, code: 1 },
  { command: 'kas get', argv: ['get', 'deploy', '--sort', 'since'], update: { ...fullList, state: stale }, code: 0 },
  { command: 'kas tree', argv: ['tree'], update: fullTree, code: 1 },
  { command: 'kas get events', argv: ['get', 'events'], update: fullEventList, code: 1 },
  { command: 'kas health', argv: ['health'], update: fullTree, code: 1 },
  { command: 'kas health', argv: ['health'], update: { ...fullTree, state: readable }, code: 5 },
  { command: 'kas health', argv: ['health', '-A'], update: { ...fullTree, state: isHere }, code: 4 },
  {
    command: 'kas health',
    argv: ['health', 'deploy/web', 'pod/other', 'widget/x', '-n', 'shop'],
    update: { ...fullList, state: readable },
    code: 1,
  },
  { command: 'kas get --watch', argv: ['get', 'deploy', '--watch'], update: fullList, code: 130 },
  { command: 'kas tree --watch', argv: ['tree', '--watch'], update: fullTree, code: 130 },
  { command: 'kas get events --watch', argv: ['get', 'events', '--watch'], update: fullEventList, code: 130 },
]

/** Returns the printed JSON, checked by its schema; with `--watch`, one value per line. */
export async function printedView(t: Test, sample: ViewSample): Promise<Record<string, unknown>[]> {
  const json = await said(t, sample, 'json')
  const yaml = await said(t, sample, 'yaml')
  const isWatch = sample.argv.includes('--watch')
  const values = (isWatch ? json.trimEnd().split('\n') : [json]).map((text) => checkedOutput(text))
  const documents = isWatch ? yaml.split(/^---\n/m).slice(1) : [yaml]
  t.strictSame(
    documents.map((text) => checkedOutput(text, 'yaml')),
    values,
    'YAML says the same',
  )
  return values
}

async function said(t: Test, { argv, update, code }: ViewSample, format: string): Promise<string> {
  const { viewer, runWith } = await startViewsServer(t)
  const clock = new ManualClock(at)
  const run = runWith({ clock }, ...argv, '-o', format)
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.update(update)
  if (argv.includes('--watch')) {
    const ends =
      format === 'json' ? /"kind":"StateChange".*"complete":true.*\n$/ : /kind: "StateChange"\n[\s\S]*complete: true\n/
    while (!ends.test(run.said.stdout)) await new Promise(setImmediate)
    run.interrupt()
  }
  t.equal(await run.code, code, run.said.stderr)
  return run.said.stdout
}
