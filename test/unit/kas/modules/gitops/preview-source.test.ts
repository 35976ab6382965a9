import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { AgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-reader.ts'
import { findSource, ownSource, type SourceComponents } from '../../../../../src/kas/modules/gitops/preview-source.ts'
import type { Peers } from '../../../../../src/kas/peers/peers.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { SourceRequestSchema, SourceResponseSchema } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { gitopsSchema } from '../../../../../src/proto/gitops/schema.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId

interface Given {
  /** the streams of the reports have ended */
  readonly isStale?: boolean
  /** sources that pods have reported to the replica, by id */
  readonly reported?: Readonly<Record<string, MessageInitShape<typeof SourceStateSchema>>>
  /** block of the file, if the replica follows the configuration */
  readonly gitops?: object
  readonly readAt?: number
}

/** Starts a replica, and peers of it that answer as replicas do, over the wire. */
function start(given: Given, ...others: readonly Given[]) {
  const clock = new ManualClock(10_000)
  const own = (of: Given): Omit<SourceComponents, 'peers'> => {
    const states = new Map(
      Object.entries(of.reported ?? {}).map(([id, init]) => {
        return [
          id,
          { bytes: toBinary(SourceStateSchema, create(SourceStateSchema, init)), at: 0, live: !of.isStale },
        ] as const
      }),
    )
    const value = of.gitops && gitopsSchema.parse(of.gitops)
    const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
    const followed = {
      agent: someAgent,
      good: good as unknown as AgentConfiguration,
      error: undefined,
      readAt: of.readAt ?? 0,
      hasFeature: () => true,
    }
    return { states: { of: () => states }, agentConfig: { followed: () => (value ? followed : undefined) }, clock }
  }
  const peers = others.map(own)
  const broadcast = async (_: unknown, request: MessageInitShape<typeof SourceRequestSchema>) => {
    const sent = fromBinary(SourceRequestSchema, toBinary(SourceRequestSchema, create(SourceRequestSchema, request)))
    return new Map(
      peers.map((peer, i) => {
        const answer = create(SourceResponseSchema, ownSource(peer, sent))
        return [`peer ${i}`, fromBinary(SourceResponseSchema, toBinary(SourceResponseSchema, answer))]
      }),
    )
  }
  const components = { ...own(given), peers: { broadcast } as unknown as Pick<Peers, 'broadcast'> }
  return (id: string) => findSource(components, agentId, id)
}

const gitops = {
  preview: { projects: [8] },
  manifest_projects: [
    { id: 'Platform/Shop', paths: [{ glob: 'a/*.yaml' }, { file: 'b.yaml' }] },
    { id: 'platform/shop', name: 'web', preview: { projects: [9, 10] } },
    { id: 'platform/other', preview: 'none', helm: { chart: 'c', release: 'r' } },
    { name: 'own' },
  ],
}
const shop = { '42-7': { project: 'platform/shop' }, '42-7-web': { project: 'platform/shop', name: 'web' } }

t.test('what this replica knows is enough', async (t) => {
  const find = start({ reported: shop, gitops })
  const { choice, ...source } = await find('42-7')
  t.strictSame(source, { id: '42-7', projectId: 7n, preview: new Set([8n]) }, 'that of gitops')
  t.strictSame(choice.files, ['b.yaml'])
  t.equal(choice.folder, '')
  t.strictSame((await find('42-7-web')).preview, new Set([9n, 10n]), 'its own')
})

t.test('the report and the configuration may be at other replicas', async (t) => {
  const find = start({}, { reported: shop }, { gitops })
  t.strictSame((await find('42-7-web')).preview, new Set([9n, 10n]))
})

t.test('the report of an open stream counts: a project may have got another path', async (t) => {
  const stale = { reported: { '42-7': { project: 'old/path' } }, isStale: true }
  t.strictSame((await start(stale, { ...stale, gitops }, { reported: shop })('42-7')).preview, new Set([8n]))
  const left = { reported: shop, isStale: true }
  t.strictSame((await start(left, { gitops })('42-7')).preview, new Set([8n]), 'an older one is better than none')
})

t.test('the configuration that was read last counts', async (t) => {
  const older = { gitops: { manifest_projects: [{ id: 'platform/shop', preview: { projects: [1] } }] }, readAt: 1000 }
  const newer = { gitops: { manifest_projects: [{ id: 'platform/shop', preview: 'none' }] }, readAt: 9000 }
  for (const replicas of [
    [older, newer],
    [newer, older],
  ] as const) {
    t.equal((await start({ reported: shop, ...replicas[0] }, replicas[1])('42-7')).preview, 'none')
  }
})

t.test('paths are those that agentk asks for', async (t) => {
  const reported = {
    '42-8': { project: 'platform/other' },
    '42-1-own': { project: someAgent.project.path, name: 'own' },
  }
  const find = start({ reported, gitops })
  const isMatch = async (id: string, path: string) => {
    const { choice } = await find(id)
    return choice.globs.length === 1 && choice.globs[0]?.alternatives.length === (path === '**/*' ? 1 : 3)
  }
  t.ok(await isMatch('42-8', '**/*'), 'all of a chart')
  t.ok(await isMatch('42-1-own', '**/*.{yaml,yml,json}'))
})

t.test('a source that is not there is not found', async (t) => {
  const reported = {
    ...shop,
    '42-9': { project: 'platform/gone' },
    '42-7-x': { project: 'platform/shop', name: 'x', removed: true },
  }
  const find = start({ reported, gitops }, { reported, gitops })
  for (const id of ['42-99', '42-9', '42-7-x']) {
    await t.rejects(find(id), {
      code: 'NOT_SERVED',
      message: `Not found: source ${id} of this agent: kas gitops status lists its sources`,
    })
  }
})

t.test('a configuration that nobody follows is that of an agent that is away', async (t) => {
  await t.rejects(start({ reported: shop })('42-7'), { code: 'AGENT_NOT_CONNECTED' })
})
