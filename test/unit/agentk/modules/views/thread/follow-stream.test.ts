import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { FollowStream } from '../../../../../../src/agentk/modules/views/thread/follow-stream.ts'
import { viewLimitsDefaults } from '../../../../../../src/agentk/modules/views/view/view-limits.ts'
import type { CallerSchema } from '../../../../../../src/proto/gen/agentk_caller_pb.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../../../../src/proto/gen/views_pb.ts'
import { ViewStage } from '../../../../../support/views/view-stage.ts'

/** User key that kas sends with a view. */
interface Said {
  readonly key?: string
  readonly userKey?: string
  /** default: the agent itself */
  readonly user?: string
}

function start(t: Test, maxViews: number) {
  const stage = new ViewStage()
  t.teardown(() => stage.close())
  stage.options = { limits: { ...viewLimitsDefaults, maxViews } }
  const faults: string[] = []
  /** Connects one replica. */
  const connect = (name: string) => {
    let views = 0
    const stream = new FollowStream({
      host: stage.host,
      send: (bytes) => {
        const { view, fault } = fromBinary(FollowResponseSchema, bytes)
        if (fault) faults.push(`${name}${view} ${fault.code} ${fault.text}`)
      },
    })
    const say = (view: number, step: NonNullable<MessageInitShape<typeof FollowRequestSchema>['step']>) =>
      stream.receive(toBinary(FollowRequestSchema, create(FollowRequestSchema, { view, step })))
    const open = ({ key = '', userKey = '', user }: Said) => {
      const view = ++views
      const value = { username: user ?? '', groups: [], uid: '', extra: [] }
      const as: MessageInitShape<typeof CallerSchema>['as'] =
        user === undefined ? { case: 'agent', value: {} } : { case: 'user', value }
      const query = Buffer.from('{"view":"list"}')
      say(view, { case: 'open', value: { caller: { as, key, userKey }, query } })
      return view
    }
    const close = (view: number) => say(view, { case: 'close', value: {} })
    return { open, close, stream }
  }
  return { connect, faults }
}

t.test('a caller that acts as the agent is one, at however many replicas: it makes room for another', async (t) => {
  const { connect, faults } = start(t, 6)
  const replicas = ['a', 'b', 'c'].map(connect)
  for (let i = 0; i < 2; i++) for (const { open } of replicas) open({ key: 'ann' })
  replicas[0]?.open({ key: 'ann' })
  t.same(faults, ['a3 TOO_MANY_STREAMS Too many views, allowed: 6. You hold 6 of them: end some, or try again later'])
  for (const { open } of replicas) open({ key: 'bob' })
  t.match(faults.slice(1), [/^c2 .*You hold 6/, /^b2 .*You hold 5/, /^a2 .*You hold 4/])
  t.equal(faults.length, 4)
  replicas[1]?.open({ key: 'bob' })
  t.match(faults[4], /^b4 TOO_MANY_STREAMS .*You hold 3/, 'each has as much now')
})

t.test('a replica that is lost gives back what its callers had', async (t) => {
  const { connect, faults } = start(t, 2)
  const [one, other] = [connect('a'), connect('b')]
  for (let i = 0; i < 2; i++) one.open({ key: 'ann' })
  one.stream.end()
  for (let i = 0; i < 2; i++) other.open({ key: 'bob' })
  t.same(faults, [])
})

t.test('views that are opened and closed again and again take no more than they have open', async (t) => {
  const { connect, faults } = start(t, 3)
  const { open, close } = connect('a')
  open({ key: 'bob' })
  for (let i = 0; i < 1000; i++) close(open({ key: 'ann' }))
  open({ key: 'bob' })
  open({ key: 'carl' })
  t.same(faults, [])
})

t.test('a view without the key of its caller is refused, whoever the caller is in the cluster', async (t) => {
  const { connect, faults } = start(t, 4)
  const { open } = connect('a')
  open({})
  open({ user: 'gitlab:user:ann', userKey: 'ann' })
  open({ key: 'ann' })
  t.same(
    faults,
    [1, 2].map((view) => `a${view} INVALID_MESSAGE a view without the key of its caller`),
  )
})
