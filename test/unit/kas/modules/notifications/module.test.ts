import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { createNotifications } from '../../../../../src/kas/modules/notifications/module.ts'
import { LocalPushes, type PushEvent } from '../../../../../src/kas/repositories/local-pushes.ts'
import {
  GitPushEventRequestSchema,
  Notifications as RailsNotifications,
} from '../../../../../src/proto/gen/notifications_pb.ts'
import { Notifications } from '../../../../../src/proto/gen/replica_notifications_pb.ts'
import type { UnaryMethods } from '../../../../../src/proto/unary.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { fakeHost } from '../../../../support/fake-host.ts'
import { FakePeers } from '../../peers/fake-peers.ts'

const { pushEvent } = Notifications.method

/** Starts a replica and its peers. */
function start(byName: ReadonlyMap<string, UnaryMethods> = new Map()) {
  const notified: bigint[] = []
  const received: PushEvent[] = []
  let found: (projectId: bigint) => void = () => undefined
  const repositories = {
    pollAfterNotice: async (projectId: bigint) => {
      notified.push(projectId)
      throw new Error('the repository cannot be read')
    },
    onFound: (listener: (projectId: bigint) => void) => {
      found = listener
      return () => undefined
    },
  }
  const pushes = new LocalPushes({ repositories: { pollAfterNotice: async () => undefined }, log: capturedLog().log })
  pushes.onPush((event) => received.push(event))
  const { repositories: bare } = fakeHost()
  const { railsMethods, replicaMethods } = createNotifications(
    fakeHost({ pushes, repositories: { ...bare, ...repositories }, peers: new FakePeers(byName) }),
  )
  const fromGitlab = railsMethods?.get(`/${RailsNotifications.typeName}/GitPushEvent`)
  if (!fromGitlab || !replicaMethods) throw new Error('a method is not served')
  return { notified, pushes, received, find: (projectId: bigint) => found(projectId), fromGitlab, replicaMethods }
}

t.test('a push of which GitLab notifies one replica is received by all, once, as the same', async (t) => {
  const second = start()
  const third = start()
  const byName = new Map([
    ['kas-1', second.replicaMethods],
    ['kas-2', third.replicaMethods],
  ])
  const first = start(byName)
  const event = { project: { id: 7n, fullPath: 'group/project' } }
  await first.fromGitlab(toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event })))
  t.match(first.received, [{ projectId: 7n, projectPath: 'group/project' }])
  t.ok(first.received[0]?.id)
  t.strictSame([second.received, third.received], [first.received, first.received])
})

t.test('a push that fails here is told to the peers all the same', async (t) => {
  const second = start()
  const first = start(new Map([['kas-1', second.replicaMethods]]))
  first.pushes.onPush(() => {
    throw new Error('a listener fails')
  })
  const event = { project: { id: 7n, fullPath: 'group/project' } }
  const told = first.fromGitlab(toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event })))
  await t.rejects(told, { code: 'PUSH_EVENT_UNTOLD' })
  t.match(second.received, [{ projectId: 7n }])
})

t.test('a move that a replica found by itself is broadcast to all peers, and sent to no agent', async (t) => {
  const second = start()
  const first = start(new Map([['kas-1', second.replicaMethods]]))
  first.find(7n)
  await new Promise(setImmediate)
  t.strictSame([first.notified, second.notified], [[], [7n]], 'whether it can be read or not')
  t.strictSame([first.received, second.received], [[], []])
})

t.test('a push without an id, and one of no project, are refused', async (t) => {
  const { replicaMethods, received } = start()
  const peers = new FakePeers(new Map([['kas-0', replicaMethods]]))
  const broadcast = (projectId: bigint, pushId: bigint) =>
    peers.broadcast(pushEvent, { projectId, projectPath: 'a/b', pushId })
  t.equal((await broadcast(1n, 5n)).size, 1)
  t.equal((await broadcast(1n, 0n)).size, 0)
  t.equal((await broadcast(0n, 5n)).size, 0)
  t.strictSame(received, [{ projectId: 1n, projectPath: 'a/b', id: 5n }])
})
