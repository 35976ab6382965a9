import { readFile } from 'node:fs/promises'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { ClusterKinds } from '../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { SharedKinds } from '../../../../src/agentk/modules/gitops/live/shared-kinds.ts'
import type { RoundDone } from '../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { GitSyncs } from '../../../../src/agentk/modules/gitops/state/git-syncs.ts'
import { SourceEvents } from '../../../../src/agentk/modules/gitops/state/source-events.ts'
import { StatusSink } from '../../../../src/agentk/modules/gitops/state/status-sink.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { anyIdentity } from '../../../support/identities.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Status of sources on a real API server, with the definition and the rights of our deployment files. */

const folder = new URL('../../../../deploy/kubernetes/agentk-gitops/', import.meta.url)
const group = 'agent.gitlab.com'

async function shipped(ground: Ground, file: string): Promise<void> {
  for (const document of parseAllDocuments(await readFile(new URL(file, folder), 'utf8'))) {
    const object = document.toJS()
    const { name, namespace = '' } = object.metadata
    const [version, apiGroup = ''] = object.apiVersion.split('/').reverse()
    t.ok(version)
    await ground.apply(keyOf(object.kind, name, namespace, apiGroup), object, 'kubectl')
  }
}

t.test('states of sources', { skip, timeout: 120_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'agentk', ''), { metadata: { name: 'agentk' } })
  await shipped(ground, '1-agentk.yaml')
  const headers = anyIdentity.accountHeaders({ namespace: 'agentk', name: 'agentk' })
  const lane = ground.lanes.lane('control', headers)
  const send: typeof ground.client.send = (request, handler) =>
    ground.client.send({ ...request, headers: [...headers, ...request.headers] }, handler)
  const { log } = capturedLog()
  const ended = new AbortController()
  const { signal } = ended
  const kinds = new SharedKinds({ lane, clock: systemClock, signal })
  const events = new SourceEvents({ lane, log, clock: systemClock })
  const syncs = new GitSyncs(
    { lane, client: { json: lane.json, send }, kinds, events, log, clock: systemClock, random: Math.random },
    { namespace: 'agentk', agentId: 42n },
  )
  const running = syncs.run(signal)
  const of = { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }
  const source = sourceOptions({ name: 'web' }, of)
  const status = new StatusSink(systemClock, syncs, [syncs])
  const entry = { key: keyOf('Secret', 'old'), version: 'v1', uid: '', wave: 0, digest: '', fields: '', reason: '' }
  const done: RoundDone = {
    kind: 'done',
    ends: [],
    entries: new Map(),
    pruned: [],
    planDigest: 'abc',
    awaitingApproval: [{ ...entry, state: 'waits' }],
    reasons: new Map(),
    kinds: new ClusterKinds([]),
    orphans: [keyOf('Secret', 'orphan')],
    isWaitingForOthers: false,
    notes: [],
  }
  const problems = [{ file: 'a.yaml', line: 3, text: 'no kind' }]
  const refuse = (commit: string) =>
    status.report(source, {
      kind: 'outcome',
      commit,
      outcome: { kind: 'refused', problems, isWaitingForOthers: false },
    })
  const report = () => status.report(source, { kind: 'outcome', commit: 'c1', outcome: done })

  await t.test('without the kind in a ConfigMap', async (t) => {
    const key = keyOf('ConfigMap', 'gitops-42-7-web-sync', 'agentk')
    report()
    await eventually(async () => (await ground.get(key)) !== undefined)
    t.match(JSON.parse((await ground.get(key)).data.status), { phase: 'Approval', plan: 'abc', commit: 'c1' })
  })

  await t.test('with it, from then on, in a GitSync; what it is annotated with is heard', async (t) => {
    const key = keyOf('GitSync', '42-7-web', 'agentk', group)
    await shipped(ground, '0-gitsync.yaml')
    await eventually(async () => (await kinds.read(signal)).find(key) !== undefined)
    await ground.readKinds()
    report()
    await eventually(async () => (await ground.get(key))?.status !== undefined)
    const { spec, status: written } = await ground.get(key)
    t.strictSame(spec, { project: 'platform/shop', name: 'web' })
    t.match(written, {
      phase: 'Approval',
      commit: 'c1',
      plan: 'abc',
      planned: ['Secret shop/old'],
      orphans: ['Secret shop/orphan'],
    })
    t.strictSame(
      written.conditions.map(({ type }: { type: string }) => type),
      ['Ready', 'Reconciling', 'Stalled', 'Drifted'],
    )
    t.match(written.counts, { orphans: 1 })
    refuse('c2')
    await eventually(async () => (await ground.get(key)).status.phase === 'Refused')
    t.match((await ground.get(key)).status.trouble, [{ file: 'a.yaml', line: 3, text: 'no kind' }])
    // with the rights of our deployment files, for this very object
    const { uid } = (await ground.get(key)).metadata
    const told = async () => {
      const { body } = await ground.client.json('GET', '/api/v1/namespaces/agentk/events')
      const { items } = body as { items: { reason: string; message: string; involvedObject: { uid: string } }[] }
      return items.filter(({ involvedObject }) => involvedObject.uid === uid)
    }
    await eventually(async () => (await told()).some(({ reason }) => reason === 'Refused'))
    t.match(await told(), [{ reason: 'ApprovalNeeded', message: /plan abc/ }, { message: 'c2: a.yaml:3: no kind' }])
    refuse('c3')
    await eventually(async () => (await told()).some(({ message }) => message.startsWith('c3: ')))
    t.equal((await told()).length, 2, 'one of an object and reason')

    let directives = 0
    syncs.onDirectives('42-7-web', () => directives++)
    await ground.merge(key, { metadata: { annotations: { [`${group}/pause`]: 'true' } } })
    await eventually(() => directives > 0)
    t.match(await syncs.directives('42-7-web', signal), { isSuspended: true })

    await ground.merge(key, { metadata: { annotations: { [`${group}/approve`]: 'abc' } } })
    await eventually(() => directives > 1)
    await t.rejects(syncs.useApproval('42-7-web', 'other', signal), /cannot be used/)
    await syncs.useApproval('42-7-web', 'abc', signal)
    t.strictSame(await syncs.directives('42-7-web', signal), {
      approved: '',
      isSuspended: true,
      resync: '',
      resynced: '',
      isForgotten: false,
    })
    await t.rejects(syncs.useApproval('42-7-web', 'abc', signal), /cannot be used/)
    await ground.merge(key, { metadata: { annotations: { [`${group}/pause`]: null } } })
    await eventually(() => directives > 2)
    t.equal(directives, 3, 'one that is taken back asks for nothing')
  })

  await t.test('a condition says since when it has its status, also after another pod leads', async (t) => {
    const key = keyOf('GitSync', '42-7-web', 'agentk', group)
    const conditions = async (commit: string) => {
      const found = await eventually(async () => {
        const { status } = await ground.get(key)
        return status.trouble[0]?.text === commit && status
      })
      const all = found.conditions as { type: string; status: string; lastTransitionTime: string }[]
      return Object.fromEntries(
        all.map(({ type, status, lastTransitionTime }) => [type, `${status} ${lastTransitionTime}`]),
      )
    }
    const refused = (to: StatusSink, commit: string) => {
      const outcome = { kind: 'refused', problems: [{ file: 'a.yaml', line: 3, text: commit }] } as const
      to.report(source, { kind: 'outcome', commit, outcome: { ...outcome, isWaitingForOthers: false } })
    }
    refused(status, 'c4')
    const first = await conditions('c4')
    t.match(first, { Ready: /^False /, Stalled: /^True / })
    refused(status, 'c5')
    t.strictSame(await conditions('c5'), first)
    const another = new GitSyncs(
      { lane, client: { json: lane.json, send }, kinds, events, log, clock: systemClock, random: Math.random },
      { namespace: 'agentk', agentId: 42n },
    )
    const itsRun = another.run(signal)
    refused(new StatusSink(systemClock, another, [another]), 'c6')
    t.strictSame(await conditions('c6'), first)
    ended.abort()
    await itsRun
  })

  ended.abort()
  await running
})
