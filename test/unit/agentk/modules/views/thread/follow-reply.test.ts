import { PassThrough } from 'node:stream'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { refuseViews } from '../../../../../../src/agentk/modules/views/thread/follow-reply.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../../../../src/proto/gen/views_pb.ts'

function start() {
  const requests = new PassThrough({ objectMode: true })
  const left = new AbortController()
  const over = new AbortController()
  const { messages, done } = refuseViews(
    { messages: requests, signal: left.signal },
    { reason: 'there is none', over: over.signal },
  )
  const answers = messages[Symbol.asyncIterator]()
  const ask = (request: MessageInitShape<typeof FollowRequestSchema>) =>
    void requests.write(toBinary(FollowRequestSchema, create(FollowRequestSchema, request)))
  const read = async () => {
    const { value, done: isOver } = await answers.next()
    return isOver ? undefined : fromBinary(FollowResponseSchema, value as Uint8Array)
  }
  return { requests, left, over, ask, read, done }
}

t.test('each view is told that there is no views.yaml, until there is one', async (t) => {
  const { ask, read, over, done } = start()
  ask({ view: 1, step: { case: 'open', value: {} } })
  ask({ view: 1, step: { case: 'page', value: { node: '', limit: 1 } } })
  ask({ view: 2, step: { case: 'open', value: {} } })
  t.match(await read(), { view: 1, fault: { code: 'VIEWS_NOT_SERVED', text: 'there is none' } })
  t.match(await read(), { view: 2, fault: { code: 'VIEWS_NOT_SERVED', text: 'there is none' } })
  const end = read()
  over.abort()
  t.equal(await end, undefined)
  t.equal((await done).error, undefined, 'in order: kas opens it again')
})

t.test('a caller that leaves, half-closes or says what is no request ends it', async (t) => {
  const one = start()
  const end = one.read()
  one.left.abort(new KasError({ code: 'CANCELLED' }))
  t.equal(await end, undefined)
  t.match((await one.done).error, { code: 'CANCELLED' })
  const two = start()
  two.requests.end()
  t.equal(await two.read(), undefined)
  t.equal((await two.done).error, undefined)
  const three = start()
  three.requests.write(Uint8Array.of(0xff))
  t.equal(await three.read(), undefined)
  t.match((await three.done).error, { code: 'INVALID_MESSAGE' })
})
