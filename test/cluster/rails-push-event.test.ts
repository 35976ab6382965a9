import { create, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { AgentId } from '../../src/call/call.ts'
import type { KasHost } from '../../src/kas/module.ts'
import { createNotifications } from '../../src/kas/modules/notifications/module.ts'
import { Leads } from '../../src/kas/peers/leads.ts'
import { LinkPeers, noPeers } from '../../src/kas/peers/peers.ts'
import type { PushEvent } from '../../src/kas/repositories/local-pushes.ts'
import { TokenCallReports } from '../../src/kas/servers/agents/limits/token-call-reports.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import type { InstanceId } from '../../src/membership/membership.ts'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { Leads as LeadsService } from '../../src/proto/gen/replica_leads_pb.ts'
import { serveUnary } from '../../src/proto/unary.ts'
import { callUnary, connect, goodMetadata, startRailsServer } from '../contract/rails-server/start-server.ts'
import { eventually } from '../support/eventually.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { patience } from '../support/slowness.ts'
import { startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/** GitLab sends a push event to one replica: all reachable replicas have acknowledged it before the answer. */

const gitPushEvent = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
const log = createLogger({ level: 'silent' })

/** Starts three replicas; GitLab calls the first. Each acknowledges an event with the promise of `heard`. */
async function start(t: Test, heard: (name: string, event: PushEvent) => Promise<void>) {
  const notified: string[] = []
  const told: string[] = []
  let found = (_: bigint) => {}
  /** acknowledges with the promise of `heard` for the latest event */
  const hosted = (name: string, peers: KasHost['peers'] = noPeers) => {
    let acknowledged = Promise.resolve()
    const publish = (event: PushEvent) => {
      acknowledged = heard(name, event)
    }
    const repositories = {
      pollAfterNotice: async (projectId: bigint) => void notified.push(`${name} ${projectId}`),
      onFound: (listener: (projectId: bigint) => void) => {
        found = listener
        return () => undefined
      },
    }
    const pushes = { publish, onPush: () => () => undefined }
    const module = createNotifications({ pushes, repositories, peers, clock: systemClock } as unknown as KasHost)
    return { module, acknowledged: () => acknowledged }
  }
  const replicas = await startWholeReplicas(t, 3, {
    methods: (name) => {
      const { module, acknowledged } = hosted(name)
      const counts = {
        changes: () => undefined,
        merge: (by: string, { minute, counts }: { minute: number; counts: ReadonlyMap<string, number> }) =>
          void told.push(`${name}: ${minute} ${[...counts]} of ${by}`),
      }
      const reports = new TokenCallReports(
        { counts, peers: noPeers, name, clock: systemClock },
        { callsPerTokenPerMinute: 100 },
      )
      const leads = new Leads({ clock: systemClock, membership: undefined, peers: noPeers })
      leads.passOver = (agentId, by) => void told.push(`${name}: ${agentId} of ${by}`)
      const methods = [module.replicaMethods, leads.replicaMethods, reports.replicaMethods].flatMap((each) => [
        ...(each ?? []),
      ])
      return Object.fromEntries(
        methods.map(([path, method]) => {
          const once = async (request: Uint8Array) => {
            const answer = await method(request)
            if (path.endsWith('/PushEvent')) await acknowledged()
            return answer
          }
          return [path, serveUnary(once)]
        }),
      )
    },
  })
  const { replica, links } = replicas[0] as WholeReplica
  const peers = new LinkPeers({ membership: replica.membership, links, clock: systemClock, log })
  t.teardown(() => peers.stop())
  const { module } = hosted('kas-0', peers)
  const { port } = await startRailsServer(t, { components: { methods: module.railsMethods ?? new Map() } })
  const client = connect(t, port)
  const event = { project: { id: 7n, fullPath: 'group/project' } }
  const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
  const push = async () => {
    const began = performance.now()
    const { code, details } = await callUnary(client, gitPushEvent, request, await goodMetadata())
    return { code, details, ms: performance.now() - began }
  }
  return { replicas, push, peers, notified, told, found: (projectId: bigint) => found(projectId) }
}

// wire: 8153.GitPushEvent.all
t.test('every replica has acknowledged a push before GitLab is answered', async (t) => {
  const told: [string, bigint, string, bigint | undefined][] = []
  const acknowledged: string[] = []
  const { push } = await start(t, async (name, { projectId, projectPath, id }) => {
    told.push([name, projectId, projectPath, id])
    await new Promise(setImmediate)
    acknowledged.push(name)
  })
  t.match(await push(), { code: grpc.status.OK })
  t.strictSame(acknowledged.toSorted(), ['kas-0', 'kas-1', 'kas-2'], 'each once: what a replica hears it keeps')
  t.strictSame(told[0]?.slice(1, 3), [7n, 'group/project'])
  t.equal(typeof told[0]?.[3], 'bigint')
  t.equal(new Set(told.map(([, , , id]) => id)).size, 1, 'one push, by one id')
})

t.test('a replica that does not acknowledge is waited for no longer than 1 s, one that fails not at all', async (t) => {
  const told: string[] = []
  let silent = true
  const { push } = await start(t, async (name) => {
    told.push(name)
    if (name === 'kas-1' && silent) await new Promise(() => undefined)
    if (name === 'kas-2') throw new Error('its disk is full')
  })
  const slow = await push()
  t.equal(slow.code, grpc.status.OK)
  t.ok(slow.ms > 900 && slow.ms < patience(3000), `after ${slow.ms.toFixed(0)} ms`)
  t.strictSame(told.toSorted(), ['kas-0', 'kas-1', 'kas-2'])
  silent = false
  const quick = await push()
  t.equal(quick.code, grpc.status.OK)
  t.ok(quick.ms < patience(900), `after ${quick.ms.toFixed(0)} ms`)
})

t.test('a replica that is gone is not waited for', async (t) => {
  const told: string[] = []
  const { replicas, push } = await start(t, async (name) => void told.push(name))
  const [first, second] = replicas as [WholeReplica, WholeReplica]
  const { instance } = second.replica.membership
  await second.replica.membership.stop()
  await eventually(() => first.links.link(instance) === undefined, first.replica.membership)
  const { code, ms } = await push()
  t.equal(code, grpc.status.OK)
  t.ok(ms < 900)
  t.strictSame(told.toSorted(), ['kas-0', 'kas-2'])
})

t.test('a move that a replica found by itself is broadcast to all peers, and sent to no agent', async (t) => {
  const heard: string[] = []
  const { found, notified } = await start(t, async (name) => void heard.push(name))
  found(7n)
  await eventually(() => notified.length === 2)
  t.strictSame(notified.toSorted(), ['kas-1 7', 'kas-2 7'])
  t.strictSame(heard, [])
})

t.test('a replica that passes its lead on tells all peers', async (t) => {
  const { peers, told } = await start(t, async () => undefined)
  const answers = await peers.broadcast(LeadsService.method.passedOn, { agentId: 42n as AgentId, name: 'kas-0' })
  t.strictSame(Array.from(answers.keys(), ({ name }) => name).toSorted(), ['kas-1', 'kas-2'])
  t.strictSame(told.toSorted(), ['kas-1: 42 of kas-0', 'kas-2: 42 of kas-0'])
})

t.test('how often tokens were used is reported to all peers', async (t) => {
  const { peers, told } = await start(t, async () => undefined)
  const tokenHash = Buffer.alloc(32, 7).toString('base64')
  const clock = new ManualClock()
  const changes = () => ({ minute: 29_000_000, counts: new Map([[tokenHash, 500]]) })
  const reports = new TokenCallReports(
    { counts: { changes, merge: () => undefined }, peers, name: 'kas-0', clock },
    { callsPerTokenPerMinute: 100 },
  )
  await reports.start()
  t.teardown(() => reports.stop())
  clock.advance(2000)
  const all = [1, 2].map((i) => `kas-${i}: 29000000 ${tokenHash},500 of kas-0`)
  await eventually(() => told.length === 2)
  t.strictSame(told.toSorted(), all)
})

t.test('a peer that is gone cannot be called', async (t) => {
  const { peers } = await start(t, async () => undefined)
  const call = peers.call('nobody' as InstanceId, LeadsService.method.passedOn, { agentId: 1n, name: 'kas-0' })
  await t.rejects(call, KasError)
})
