import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sourceStatus } from '../../../../../../src/kas/modules/gitops/cli/source-list.ts'
import { readState } from '../../../../../../src/kas/modules/gitops/cli/state.ts'
import { checkedOutput } from '../../../../../support/output-schema.ts'
import { kubeconfigText, run, startHostileServer } from '../../../cli/hostile-server.ts'
import {
  fullSource,
  fullState,
  printedSources,
  saidOfSources,
  sourceSamples,
  sourcesAsYaml,
  unreportedSource,
} from '../../../cli/source-samples.ts'

/** Tests the output of `kas gitops status` for programs. */

async function printed(t: Test, line: string, state: object) {
  const { play } = await startHostileServer(t)
  play.answer = () => ({ body: JSON.stringify(state) })
  return await run(line.split(' '))
}

const at = Date.parse('2026-11-28T12:00:00Z')
const sourceOf = (source: object) => {
  const [read] = readState(JSON.stringify({ sources: [source] })).sources
  return JSON.parse(JSON.stringify(sourceStatus(read as NonNullable<typeof read>, at)))
}

t.test('a source in whole words; times count from the report, whatever the clock of the agent says', (t) => {
  const object = { group: 'apps', version: 'v1', kind: 'Deployment', namespace: 'shop', name: 'web' }
  const namespace = { version: 'v1', kind: 'Namespace', name: 'shop' }
  const polled = { commit: 'b'.repeat(40), time: '2026-11-28T11:59:59.500Z', containsCommit: true }
  t.strictSame(sourceOf(fullSource), {
    id: '42-7-web',
    project: 'platform/shop',
    name: 'web',
    ref: 'branch main',
    phase: 'APPROVAL',
    reason: 'x',
    message: 'it waits',
    next: 'kubectl annotate gitsync',
    stale: false,
    commit: 'a'.repeat(40),
    wanted: 'b'.repeat(40),
    configurationTaken: true,
    counts: {
      objects: 9,
      applied: 1,
      unchanged: 2,
      failed: 3,
      waiting: 4,
      pruned: 5,
      surviving: 6,
      drifted: 7,
      notCompared: 9,
      wouldChange: 10,
      orphans: 8,
    },
    reported: '2026-11-28T11:59:59.000Z',
    applied: '2026-11-28T11:49:59.000Z',
    compared: '2026-11-28T11:59:49.000Z',
    polled,
    plan: 'abc',
    failures: [
      { object, message: 'no', file: 'a.yaml', line: 3 },
      { message: 'no YAML', file: 'b.yaml' },
    ],
    leaving: [{ object: namespace, reason: 'pruneConfirm', message: 'prune_confirm' }],
    kept: [{ object, reason: 'neverPrune', message: 'never' }],
    drifted: [
      {
        object,
        kind: 'drifted',
        deleted: false,
        paths: ['.spec.replicas'],
        morePaths: 2,
        manager: 'kubectl-edit',
        operation: 'Update',
        changed: '2026-11-28T11:59:49.000Z',
        since: '2026-11-28T11:59:50.000Z',
        corrected: '2026-11-28T12:04:49.000Z',
        leftBecause: 'hold',
        holdUntil: '2026-11-28T12:04:59.000Z',
        message: 'refused',
        file: 'a.yaml',
        line: 3,
      },
    ],
    driftMode: 'correct',
    orphans: [namespace],
    environments: ['7/production'],
    statusObject: '/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7-web',
    leftToOthers: [{ object, path: '.spec.replicas', manager: 'scaler', rule: 'Deployment .spec.replicas' }],
    unwatched: ['Thing: the API server refuses to list or watch it (403)'],
    health: { healthy: 5, progressing: 1, degraded: 2, suspended: 1, missing: 1, unknown: 1, unread: 3 },
    unhealthy: [
      {
        object,
        verdict: 'degraded',
        culprit: namespace,
        reason: 'Bad',
        message: 'it fails',
        since: '2026-11-28T11:49:59.000Z',
      },
      { object: namespace, verdict: 'missing' },
    ],
    unlisted: ['Pod: agentk may not list them (403)'],
    withheld: 2,
    incomplete: false,
  })
  t.end()
})

t.test('what is not known is absent', (t) => {
  t.strictSame(sourceOf({ ...unreportedSource, at_ms: '0', applied_at_ms: '0' }), {
    id: '42-a/b',
    project: 'a/b',
    phase: 'NOT_READY',
    reason: 'agent_absent',
    message: 'no pod of the agent is connected',
    next: 'see why',
    stale: false,
    failures: [],
    leaving: [],
    kept: [],
    drifted: [],
    orphans: [],
    environments: [],
    leftToOthers: [],
    unwatched: [],
    unhealthy: [],
    unlisted: [],
    withheld: 0,
    incomplete: false,
  })
  const odd = sourceOf({
    ...fullSource,
    at_ms: '9'.repeat(16),
    applied_at_ms: '1',
    polled: { commit: '', age_ms: 1e300 },
  })
  t.equal(odd.applied, undefined, 'no time that RFC 3339 can write')
  t.strictSame(odd.polled, {})
  t.end()
})

t.test('names are those of kas gitops forget; wide has more columns', async (t) => {
  t.equal((await printed(t, 'gitops status -o name', fullState)).stdout, 'source/42-a/b\nsource/42-7-web\n')
  const { stdout } = await printed(t, 'gitops status -o wide', { sources: [fullSource], agent: 'connected' })
  t.match(
    stdout,
    /^SOURCE +REF +PHASE +COMMIT +WANTED +OBJECTS +FAILED +DRIFT +HEALTH +APPLIED +COMPARED +REPORTED +POLLED +ID\nplatform\/shop \(web\) +branch main +APPROVAL +aaaaaaaa +bbbbbbbb +3\/9 +3 +7\? +2 degraded\? +10m +11s +1s +1s +42-7-web\n/,
  )
})

t.test('a gate that does not reach kas prints an object, too', async (t) => {
  const { folder } = await startHostileServer(t)
  await writeFile(join(folder, 'config'), kubeconfigText('http://127.0.0.1:9/k8s-proxy/'))
  const { code, stdout } = await run('gitops status --wait 1m -o json'.split(' '))
  t.equal(code, 5)
  t.match(checkedOutput(stdout), {
    kind: 'SourceList',
    agent: 42,
    exitCode: 5,
    message: /^nobody listens at 127\.0\.0\.1:9 /,
    incomplete: false,
    items: [],
  })
})

t.test('--watch prints a line for each source, then one for each change, and none for an age', async (t) => {
  const later = { ...fullSource, age_ms: 2000, polled: { ...fullSource.polled, age_ms: 1500 } }
  const synced = { ...fullSource, phase: 'SYNCED', problem: '' }
  const answers = [
    { sources: [fullSource], agent: 'connected' },
    { sources: [later], agent: 'connected' },
    { sources: [synced, unreportedSource], agent: 'connected' },
    { sources: [unreportedSource], agent: 'stock' },
  ]
  const values = await printedSources(t, { args: ['status', '--watch'], answers, code: 3 })
  const short = values.map(({ kind, type, source, agentState, exitCode }) =>
    kind === 'SourceChange'
      ? [type, (source as { id: string }).id, (source as { phase: string }).phase]
      : [type, agentState, exitCode],
  )
  t.strictSame(short, [
    ['ADDED', '42-7-web', 'APPROVAL'],
    ['STATE', 'connected', 1],
    ['ADDED', '42-a/b', 'NOT_READY'],
    ['MODIFIED', '42-7-web', 'SYNCED'],
    ['DELETED', '42-7-web', 'SYNCED'],
    ['STATE', 'stock', 3],
  ])
})

t.test('YAML says the same', async (t) => {
  const withoutWatch = sourceSamples.filter(({ args }) => !args.includes('--watch'))
  t.equal(withoutWatch.length, 2)
  for (const sample of withoutWatch) t.strictSame(await sourcesAsYaml(t, sample), await printedSources(t, sample))
  const ofNobody = { args: ['status', '--watch'], answers: [{ sources: [unreportedSource] }], code: 1 }
  t.strictSame(await sourcesAsYaml(t, ofNobody), await printedSources(t, ofNobody))
})

t.test('--watch prints the table for people once it is another one', async (t) => {
  const answers = [{ sources: [unreportedSource] }, { sources: [unreportedSource] }]
  const table = await saidOfSources(t, { args: ['status', '--watch'], answers, code: 1 }, 'table')
  t.equal(table.match(/^SOURCE /gm)?.length, 1, table)
})
