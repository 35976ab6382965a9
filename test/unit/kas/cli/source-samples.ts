import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { printableIo } from '../../../../src/kas/cli/cli.ts'
import { gitopsStatus } from '../../../../src/kas/modules/gitops/cli/status.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { checkedOutput } from '../../../support/output-schema.ts'
import { startHostileServer } from './hostile-server.ts'

/** Answers of kas about GitOps sources, with every field set. */

const key = { group: 'apps', version: 'v1', kind: 'Deployment', namespace: 'shop', name: 'web' }
const cluster = { group: '', version: 'v1', kind: 'Namespace', namespace: '', name: 'shop' }
const polled = { commit: 'b'.repeat(40), age_ms: 500, contains: true }

export const fullSource = {
  source: '42-7-web',
  project: 'platform/shop',
  name: 'web',
  ref: 'branch main',
  phase: 'APPROVAL',
  reason: 'x',
  problem: 'it waits',
  next: 'kubectl annotate gitsync',
  stale: false,
  commit: 'a'.repeat(40),
  wanted: 'b'.repeat(40),
  is_current: true,
  counts: {
    objects: 9,
    applied: 1,
    unchanged: 2,
    failed: 3,
    waiting: 4,
    pruned: 5,
    survivors: 6,
    drifted: 7,
    not_compared: 9,
    would_change: 10,
    orphans: 8,
  },
  age_ms: 1000,
  at_ms: '1000000',
  applied_at_ms: '400000',
  compared_at_ms: '990000',
  polled,
  plan: 'abc',
  trouble: [
    { key, text: 'no', file: 'a.yaml', line: 3 },
    { text: 'no YAML', file: 'b.yaml', line: 0 },
  ],
  leaving: [{ key: cluster, code: 'pruneConfirm', text: 'prune_confirm' }],
  kept: [{ key, code: 'neverPrune', text: 'never' }],
  drifted: [
    {
      key,
      kind: 'drifted',
      deleted: false,
      path: ['.spec.replicas'],
      more_paths: 2,
      manager: 'kubectl-edit',
      operation: 'Update',
      changed_at_ms: '990000',
      since_ms: '991000',
      correct_at_ms: '1290000',
      left: 'hold',
      hold_until_ms: '1300000',
      text: 'refused',
      file: 'a.yaml',
      line: 3,
    },
  ],
  drift_mode: 'correct',
  orphan: [cluster],
  environment: ['7/production'],
  left_to_others: [{ key, path: '.spec.replicas', manager: 'scaler', rule: 'Deployment .spec.replicas' }],
  unwatched: ['Thing: the API server refuses to list or watch it (403)'],
  health: { healthy: 5, progressing: 1, degraded: 2, suspended: 1, missing: 1, unknown: 1, unread: 3 },
  unhealthy: [
    { key, word: 'degraded', culprit: cluster, reason: 'Bad', text: 'it fails', since_ms: '400000' },
    { key: cluster, word: 'missing', reason: '', text: '', since_ms: '0' },
  ],
  unlisted: ['Pod: agentk may not list them (403)'],
  withheld: 2,
  object: '/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7-web',
}

/** Answer of kas for a source that no agent has reported. */
export const unreportedSource = {
  source: '42-a/b',
  project: 'a/b',
  name: '',
  ref: '',
  phase: 'NOT_READY',
  reason: 'agent_absent',
  problem: 'no pod of the agent is connected',
  next: 'see why',
  commit: '',
  wanted: '',
  trouble: [],
  plan: '',
  age_ms: 0,
  stale: false,
}

export const fullState = {
  sources: [fullSource, unreportedSource],
  agent: 'absent',
  away: { code: 'AGENT_NOT_CONNECTED', text: 'No replica has had agent 42' },
  configuration: { commit: 'c'.repeat(40), phase: 'REFUSED', problem: 'line 3', next: 'mend it', age_ms: 5, polled },
  cut: true,
  names: { problem: 'the agent is away' },
  commit: 'b'.repeat(40),
}

interface SourceSample {
  /** Name of the command in doc/reference/output.md. */
  readonly command: string
  /** arguments after `gitops`, without `-o` */
  readonly args: readonly string[]
  /** Answers of kas in turn; the last one repeats. */
  readonly answers: readonly object[]
  readonly code: number
}

export const sourceSamples: readonly SourceSample[] = [
  { command: 'kas gitops status', args: ['status'], answers: [fullState], code: 1 },
  {
    command: 'kas gitops status',
    args: ['status', '--commit', fullState.commit, '--wait', '1m'],
    answers: [{ ...fullState, agent: 'stock' }],
    code: 5,
  },
  { command: 'kas gitops status --watch', args: ['status', '--watch'], answers: [fullState], code: 1 },
]

/** Runs the command; with `--watch`, until each answer was shown. @returns its output */
export async function saidOfSources(
  t: Test,
  { args, answers, code }: Omit<SourceSample, 'command'>,
  format: string,
): Promise<string> {
  const { play, folder } = await startHostileServer(t)
  const clock = new ManualClock(Date.parse('2026-11-28T12:00:00Z'))
  const end = new AbortController()
  let asked = 0
  play.answer = () => {
    asked += 1
    if (asked > answers.length) end.abort()
    return { body: JSON.stringify(answers[asked - 1] ?? answers.at(-1)) }
  }
  let stdout = ''
  const io = printableIo({
    env: { KUBECONFIG: join(folder, 'config') },
    stdout: {
      write: (text: string) => {
        stdout += text
      },
    },
    stderr: { write: () => undefined },
    stdin: Readable.from([]),
  })
  // the clock ends pauses, and stands still without a timer
  const ticking = setInterval(() => args.includes('--watch') && clock.advance(500), 1)
  try {
    t.equal(await gitopsStatus([...args, '-o', format], { io, clock, signal: end.signal }), code)
  } finally {
    clearInterval(ticking)
  }
  return stdout
}

/** Returns the printed JSON, checked by its schema; with `--watch`, one value per line. */
export async function printedSources(
  t: Test,
  sample: Omit<SourceSample, 'command'>,
): Promise<Record<string, unknown>[]> {
  const json = await saidOfSources(t, sample, 'json')
  return (sample.args.includes('--watch') ? json.trimEnd().split('\n') : [json]).map((text) => checkedOutput(text))
}

/** Returns the same as YAML. */
export async function sourcesAsYaml(
  t: Test,
  sample: Omit<SourceSample, 'command'>,
): Promise<Record<string, unknown>[]> {
  const yaml = await saidOfSources(t, sample, 'yaml')
  const documents = sample.args.includes('--watch') ? yaml.split(/^---\n/m).slice(1) : [yaml]
  return documents.map((text) => checkedOutput(text, 'yaml'))
}
