import { create, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { AgentId } from '../../src/call/call.ts'
import { ConnectedAgents } from '../../src/kas/modules/agent-tracker/own-registrations.ts'
import { ClusterPushEvents } from '../../src/kas/modules/notifications/cluster-push-events.ts'
import { notificationsService } from '../../src/kas/modules/notifications/notifications.ts'
import { ReplicaCalls } from '../../src/kas/replica-calls.ts'
import { replicaMethods } from '../../src/kas/replica-methods.ts'
import type { PushEvent } from '../../src/kas/repositories/pushes.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import type { InstanceId } from '../../src/membership/membership.ts'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { callUnary, connect, goodMetadata, startRailsServer } from '../contract/rails-server/start-server.ts'
import { until } from './replicas.ts'
import { startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/** GitLab tells one replica of a push: all that can be reached have acknowledged it before the answer. */

const gitPushEvent = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
const log = createLogger({ level: 'silent' })

/** Three replicas; GitLab calls the first. `heard` acknowledges by its promise. */
async function start(t: Test, heard: (name: string, event: PushEvent) => Promise<void>) {
  const poked: string[] = []
  const told: string[] = []
  const replicas = await startWholeReplicas(t, 3, {
    methods: (name) =>
      replicaMethods({
        pushEvents: { publish: (event) => heard(name, event) },
        repositories: { poke: async (projectId) => void poked.push(`${name} ${projectId}`) },
        connectedAgents: new ConnectedAgents({ clock: systemClock }),
        counts: { hear: (by, { minute, counts }) => void told.push(`${name}: ${minute} ${[...counts]} of ${by}`) },
        recentPushes: {
          learn: (known) => void told.push(`${name}: ${known.map(({ projectPath, id }) => `${projectPath} ${id}`)}`),
        },
        leads: { passOver: (agentId, by) => void told.push(`${name}: ${agentId} of ${by}`) },
      }),
  })
  const { replica, links } = replicas[0] as WholeReplica
  const others = new ReplicaCalls({ membership: replica.membership, replicas: links, log })
  const local = { publish: (event: PushEvent) => heard('kas-0', event) }
  const pushEvents = new ClusterPushEvents({ local, others, log })
  const methods = notificationsService({ pushEvents, clock: systemClock })
  const { port } = await startRailsServer(t, { components: { methods } })
  const client = connect(t, port)
  const event = { project: { id: 7n, fullPath: 'group/project' } }
  const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
  const push = async () => {
    const began = performance.now()
    const { code, details } = await callUnary(client, gitPushEvent, request, await goodMetadata())
    return { code, details, ms: performance.now() - began }
  }
  return { replicas, push, others, poked, told }
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
  t.ok(slow.ms > 900 && slow.ms < 3000, `after ${slow.ms.toFixed(0)} ms`)
  t.strictSame(told.toSorted(), ['kas-0', 'kas-1', 'kas-2'])
  silent = false
  const quick = await push()
  t.equal(quick.code, grpc.status.OK)
  t.ok(quick.ms < 900, `after ${quick.ms.toFixed(0)} ms`)
})

t.test('a replica that is gone is not waited for', async (t) => {
  const told: string[] = []
  const { replicas, push } = await start(t, async (name) => void told.push(name))
  const [first, second] = replicas as [WholeReplica, WholeReplica]
  const { instance } = second.replica.membership
  await second.replica.membership.stop()
  await until(first.replica, () => first.links.link(instance) === undefined)
  const { code, ms } = await push()
  t.equal(code, grpc.status.OK)
  t.ok(ms < 900)
  t.strictSame(told.toSorted(), ['kas-0', 'kas-2'])
})

t.test('a move that a replica found by itself is told to all others, and to no agent', async (t) => {
  const heard: string[] = []
  const { others, poked } = await start(t, async (name) => void heard.push(name))
  await others.branchMoved(7n)
  t.strictSame(poked.toSorted(), ['kas-1 7', 'kas-2 7'])
  t.strictSame(heard, [])
})

t.test('a replica that passes its lead on tells all others', async (t) => {
  const { others, told } = await start(t, async () => undefined)
  t.strictSame([...(await others.passedOn(42n as AgentId))].toSorted(), ['kas-1', 'kas-2'])
  t.strictSame(told.toSorted(), ['kas-1: 42 of kas-0', 'kas-2: 42 of kas-0'])
})

t.test('how often tokens were used is told to all others', async (t) => {
  const { others, told } = await start(t, async () => undefined)
  const tokenHash = Buffer.alloc(32, 7).toString('base64')
  await others.callCounts({ minute: 29_000_000, counts: new Map([[tokenHash, 500]]) })
  t.strictSame(
    told.toSorted(),
    [1, 2].map((i) => `kas-${i}: 29000000 ${tokenHash},500 of kas-0`),
  )
})

t.test('which pushes there were is told to one', async (t) => {
  const { others, told } = await start(t, async () => undefined)
  const [instance] = others.reachable()
  const push = { projectId: 1n, projectPath: 'a/b', id: 5n, ageMs: 7 }
  await others.recentPushes(instance as InstanceId, [push])
  t.equal(told.length, 1)
  t.match(told[0], /^kas-[12]: a\/b 5$/)
  await t.rejects(others.recentPushes('nobody' as InstanceId, [push]), KasError)
})
