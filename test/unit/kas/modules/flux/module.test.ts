import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { Directory } from '../../../../../src/kas/directory/directory.ts'
import { createFlux } from '../../../../../src/kas/modules/flux/module.ts'
import { reconcileProjectsMethod } from '../../../../../src/kas/modules/flux/reconcile-projects.ts'
import { LocalPushes } from '../../../../../src/kas/repositories/local-pushes.ts'
import {
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../../../src/proto/gen/flux_pb.ts'
import { Pushes, RecentPushesResponseSchema } from '../../../../../src/proto/gen/replica_pushes_pb.ts'
import { type UnaryMethods, unaryService } from '../../../../../src/proto/unary.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { bareDirectory, fakeHost } from '../../../../support/fake-host.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'
import { FakePeers } from '../../peers/fake-peers.ts'

const directory: Directory = { ...bareDirectory, readsProject: async () => true }
const settled = () => settle(20)

/** Starts a replica and its peers. */
function start(byName: ReadonlyMap<string, UnaryMethods> = new Map()) {
  const clock = new ManualClock()
  const pushes = new LocalPushes({ repositories: { pollAfterNotice: async () => undefined }, log: capturedLog().log })
  const peers = new FakePeers(byName)
  const module = createFlux(fakeHost({ directory, pushes, peers, clock }))
  const serve = module.agentMethods?.[reconcileProjectsMethod]?.serve
  if (!serve) throw new Error('it is not served')
  return { clock, pushes, peers, module, serve }
}

// wire: 8150.ReconcileProjects
t.test('it serves ReconcileProjects alone', async (t) => {
  const { agentMethods } = start().module
  t.match(agentMethods, { [reconcileProjectsMethod]: { type: 'server_stream', patient: true } })
  t.strictSame(Object.keys(agentMethods ?? {}), [reconcileProjectsMethod])
})

t.test('a peer that comes into reach gets the recent pushes, in parts', async (t) => {
  const received: [first: bigint | undefined, count: number][] = []
  const other = unaryService(Pushes, {
    recentPushes: async ({ push }) => {
      received.push([push[0]?.pushId, push.length])
      return create(RecentPushesResponseSchema)
    },
  })
  const { pushes, peers } = start(new Map([['kas-1', other]]))
  const push = (id: bigint) => pushes.publish({ projectId: id, projectPath: `p/${id}`, id })
  await peers.reach('kas-1')
  t.strictSame(received, [], 'there were none')
  for (let id = 0n; id < 2500n; id++) push(id)
  await peers.reach('kas-1')
  t.strictSame(received.splice(0), [
    [0n, 1000],
    [1000n, 1000],
    [2000n, 500],
  ])
  push(2500n)
  await peers.reach('kas-1')
  t.strictSame(received.at(-1), [2000n, 501], 'with those since')
  await t.rejects(peers.reach('kas-2'), { code: 'STATUS' }, 'its error is for the caller, who tries again')
})

t.test('an agent is notified here of a push that a peer knew of', async (t) => {
  const { module, serve } = start()
  const there = start(new Map([['kas-0', module.replicaMethods ?? new Map()]]))
  there.pushes.publish({ projectId: 1n, projectPath: 'a/b', id: 5n })
  there.clock.advance(60_000)
  await there.peers.reach('kas-0')
  const request = create(ReconcileProjectsRequestSchema, { project: [{ id: 'a/b' }] })
  const call = new FakeAgentCall({ messages: [toBinary(ReconcileProjectsRequestSchema, request)] })
  const done = call.servedBy(serve)
  await settled()
  t.match(
    call.sent.map((message) => fromBinary(ReconcileProjectsResponseSchema, message)),
    [{ project: { id: 'a/b' }, pushId: 5n }],
  )
  call.retire()
  t.equal(await done, 'OK')
})

t.test('malformed pushes of a peer are refused', async (t) => {
  const [[path, recentPushes] = []] = start().module.replicaMethods ?? []
  t.equal(path, '/kas.replica.v1.Pushes/RecentPushes')
  await t.rejects(async () => await recentPushes?.(Buffer.from([0x0a, 0x05])), { code: 'INVALID_MESSAGE' })
})
